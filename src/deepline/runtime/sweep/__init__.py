"""The liveness sweep at work: passes, reads, verdicts and settlements (C39–C43).

What a pass began and did not see the end of lives on in nurseries that are not the pass's own.
"""

from deepline.runtime.sweep.controller import LivenessSweep
from deepline.runtime.sweep.sweeping import Inspector, Sweeping, SweepPorts, provider_inspector

__all__ = ["Inspector", "LivenessSweep", "SweepPorts", "Sweeping", "provider_inspector"]
