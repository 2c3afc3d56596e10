"""The commands, one file each: whatever file here has a `COMMAND` is one."""
