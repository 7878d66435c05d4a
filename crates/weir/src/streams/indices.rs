//! A set of small numbers: slots of a connection that somebody has to look at.

/// Numbers from zero; memory and time are a bit for each up to the largest.
#[derive(Debug, Default)]
pub struct Indices {
    words: Vec<u64>,
}

impl Indices {
    /// Puts a number in.
    pub fn insert(&mut self, index: usize) {
        let word = index / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (index % 64);
    }

    /// Takes a number out.
    pub fn remove(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word &= !(1 << (index % 64));
        }
    }

    /// Takes out the smallest number that is not below `from`.
    pub fn take_from(&mut self, from: usize) -> Option<usize> {
        let index = self.next_from(from)?;
        self.remove(index);
        Some(index)
    }

    /// The smallest number that is not below `from`.
    pub fn next_from(&self, from: usize) -> Option<usize> {
        let mut word = from / 64;
        let mut bits = self.words.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.words.get(word)?;
        }
        Some(word * 64 + bits.trailing_zeros() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_out_once_and_in_order() {
        let mut set = Indices::default();
        assert_eq!(set.next_from(0), None);
        for index in [130, 0, 63, 64, 130, 99] {
            set.insert(index);
        }
        set.remove(99);
        set.remove(1000);
        assert_eq!(set.next_from(65), Some(130));
        let mut all = Vec::new();
        while let Some(index) = set.take_from(0) {
            all.push(index);
        }
        assert_eq!(all, [0, 63, 64, 130]);
        assert_eq!(set.next_from(0), None);
    }
}
