//! Every subvolume, and what dropping some of them would free.
