"""The program that runs in a Daytona sandbox beside the runner; standard library only.

It is packed into one file and uploaded. Daytona's own sessions forget what they ran when their
daemon restarts, and never learn how a killed shell ended; files and a lock do not forget.
"""
