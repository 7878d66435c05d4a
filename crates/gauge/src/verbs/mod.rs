//! What `gauge` can be told to do, one file each.

pub(crate) mod load;
