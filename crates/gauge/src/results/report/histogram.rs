//! A histogram of durations that travels in JSON.

use base64::prelude::{BASE64_STANDARD, Engine};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize};

/// Durations in nanoseconds in an HDR histogram (http://hdrhistogram.org), three significant digits unless told otherwise. In
/// JSON it is the base64 of HdrHistogram's V2 compressed encoding, as in its logs, readable with every port of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

/// The finest step, nanoseconds: below the resolution of any network latency, and it halves the memory.
const STEP_NS: u64 = 64;

/// Longest duration that is distinguished, nanoseconds: an hour. Longer ones count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Default for Histogram {
    fn default() -> Self {
        Histogram::with_digits(3)
    }
}

impl Histogram {
    /// An empty one that keeps so many significant digits (1 to 5).
    pub fn with_digits(digits: u8) -> Self {
        // It grows up to what is recorded: few workloads need an hour's range.
        let mut histogram = hdrhistogram::Histogram::new_with_bounds(STEP_NS, STEP_NS * (1 << 14), digits.clamp(1, 5))
            .expect("valid bounds");
        histogram.auto(true);
        Histogram(histogram)
    }

    /// Records a duration.
    #[inline]
    pub fn record(&mut self, duration_ns: u64) {
        self.record_n(duration_ns, 1);
    }

    /// Records a duration `count` times.
    #[inline]
    pub fn record_n(&mut self, duration_ns: u64, count: u64) {
        // It grows by itself, and nothing is above the longest.
        let _ = self.0.record_n(duration_ns.min(LONGEST_NS), count);
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Histogram) {
        // It grows by itself.
        let _ = self.0.add(&other.0);
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value below or at which this share (0 to 1) of the durations lies, nanoseconds.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile).min(self.0.max())
    }

    /// Smallest, nanoseconds.
    pub fn min_ns(&self) -> u64 {
        self.0.min()
    }

    /// Largest, nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }

    /// Mean, nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// Standard deviation, nanoseconds.
    pub fn stdev_ns(&self) -> f64 {
        self.0.stdev()
    }

    /// How many durations lie above `limit_ns` (to the histogram's resolution).
    pub fn count_above(&self, limit_ns: u64) -> u64 {
        self.0.len() - self.0.count_between(0, limit_ns)
    }

    /// Pairs of (value in nanoseconds, count), ascending, for drawing and for statistics on the distribution.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Base64 of the V2 compressed encoding.
    ///
    /// # Errors
    /// What the encoder cannot do; none is known for histograms of this kind.
    pub fn encode(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&self.0, &mut bytes).map_err(|error| error.to_string())?;
        Ok(BASE64_STANDARD.encode(bytes))
    }

    /// Reads what [`Histogram::encode`], or any port of HdrHistogram, wrote (V2, compressed or not).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(text: &str) -> Result<Self, String> {
        let bytes = BASE64_STANDARD.decode(text).map_err(|error| error.to_string())?;
        let mut histogram: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())?;
        histogram.auto(true);
        Ok(Histogram(histogram))
    }
}

impl Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.encode().map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Histogram::decode(&text).map_err(|error| D::Error::custom(format!("not an HDR histogram in V2 form: {error}")))
    }
}
