"""The bounded target reader: a supervised child observes the live generation within one deadline (protocol 7)."""

READY = b"ready\n"
"""What a child in probe mode says before it hangs; it stands here because such a child imports nothing else."""
