"""An executable model of Strata's pipelined loop."""
