"""What a race means: root causes, consequence, witness, what-if replays, the smallest mend, the smallest trace.

It decides nothing about what is a race (that is `replay`) and prints nothing (that is `report`).
"""
