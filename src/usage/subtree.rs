//! Every directory and file of a subvolume.
