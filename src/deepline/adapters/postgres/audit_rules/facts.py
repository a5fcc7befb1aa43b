"""Facts are whole, in order, and told once (I20–I22, I29)."""

from collections.abc import Sequence

from deepline.adapters.postgres.audit_rules.rule import Rule

FACTS: Sequence[Rule] = (
    Rule(
        name="facts_without_gaps",
        holds=("I20",),
        statement="""
            select r.run_id, format('%s facts from %s to %s, the next would be %s', count(o.seq),
                                    min(o.seq), max(o.seq), r.next_seq)
              from {schema}.runs r left join {schema}.outbox o on o.run_id = r.run_id
             group by r.run_id, r.next_seq
            having count(o.seq) <> r.next_seq - 1 or min(o.seq) <> 1
                or max(o.seq) <> r.next_seq - 1""",
    ),
    Rule(
        name="created_fact_first",
        holds=("I20",),
        statement="""
            select r.run_id, 'its first fact is not that it was created'
              from {schema}.runs r
             where not exists (
                 select from {schema}.outbox o
                  where o.run_id = r.run_id and o.seq = 1 and o.kind = 'run.created')""",
    ),
    Rule(
        name="one_terminal_fact",
        holds=(
            "I01",
            "I20",
            "I29",
        ),
        statement="""
            select r.run_id, format('it is %s and has %s terminal facts', r.status, count(o.seq))
              from {schema}.runs r
              left join {schema}.outbox o
                on o.run_id = r.run_id and o.kind = any ({terminal_kinds})
             group by r.run_id, r.status, r.terminal_at
            having count(o.seq) <> case when r.terminal_at is null then 0 else 1 end""",
    ),
    Rule(
        name="terminal_fact_last",
        holds=("I20",),
        statement="""
            select o.run_id, format('fact %s (%s) came after its terminal fact', n.seq, n.kind)
              from {schema}.outbox o
              join {schema}.outbox n on n.run_id = o.run_id and n.seq > o.seq
             where o.kind = any ({terminal_kinds})""",
    ),
    Rule(
        name="terminal_fact_agrees",
        holds=(
            "I20",
            "I30",
        ),
        statement="""
            select r.run_id, format('it is %s, its terminal fact is %s', r.status, o.kind)
              from {schema}.runs r
              join {schema}.outbox o on o.run_id = r.run_id and o.kind = any ({terminal_kinds})
             where o.kind <> 'run.' || r.status or o.event_id <> 'run-terminal:' || r.run_id""",
    ),
    Rule(
        name="facts_in_order",
        holds=("I21",),
        statement="""
            select o.run_id, format('fact %s was delivered before fact %s', n.seq, o.seq)
              from {schema}.outbox o
              join {schema}.outbox n
                on n.run_id = o.run_id and n.seq > o.seq and n.delivered_at is not null
             where o.delivered_at is null or o.delivered_at > n.delivered_at""",
    ),
    Rule(
        name="facts_delivered",
        settled=True,
        statement="""
            select o.run_id, format('fact %s (%s) is not delivered%s', o.seq, o.kind,
                                    case when o.dead_at is null then '' else ', it is dead' end)
              from {schema}.outbox o where o.delivered_at is null""",
    ),
    Rule(
        name="ledger_agrees",
        holds=("I21", "I29"),
        statement="""
            select e.run_id, format('it is %s, and the ledger says %s', coalesce(r.status, 'gone'),
                                    string_agg(e.kind, ', '))
              from {schema}.run_events e left join {schema}.runs r on r.run_id = e.run_id
             where e.kind = any ({terminal_kinds})
             group by e.run_id, r.status
            having count(*) <> 1 or min(e.kind) is distinct from 'run.' || r.status""",
    ),
    Rule(
        name="one_deliverer",
        holds=("I22",),
        settled=True,
        statement="""
            select b.run_id, format('%s leases its facts though all are delivered', b.owner)
              from {schema}.outbox_leases b
             where not exists (select from {schema}.outbox o
                                where o.run_id = b.run_id and o.delivered_at is null)""",
    ),
)
