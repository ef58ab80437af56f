//! How full a server's cache is, read from its metrics.

/// Upper bound of a page of metrics, in bytes.
pub(super) const MOST_METRICS_BYTES: usize = 4 << 20;
/// Size of a cache whose server tells its share only.
const USUAL_TOKENS: usize = 1 << 18;
/// Caches and queues are no larger: sums of a few thousand of them stay numbers.
const MOST: f64 = (1_u64 << 48) as f64;
/// Tokens of a block of rocstar's cache.
const ROCSTAR_BLOCK_TOKENS: f64 = 32.0;

/// Room for sequences at one server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Share of the cache that is free, from 0 to 1.
    pub(super) free_share: f64,
    /// Tokens that the cache holds, where it is told.
    pub(super) total_tokens: Option<usize>,
    /// Requests that wait there.
    pub(super) waiting: usize,
}

impl Load {
    /// Tokens that have room.
    pub(super) fn free_tokens(&self) -> usize {
        (self.free_share * self.total_tokens.unwrap_or(USUAL_TOKENS) as f64) as usize
    }

    /// Reads a page of metrics in the form of Prometheus; `None` where it tells of no cache.
    pub(super) fn read(page: &str) -> Option<Self> {
        let page = Page::read(page);
        let usage = ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"];
        if let Some(used_share) = usage.iter().find_map(|name| page.mean(name)) {
            let waiting = page.sum("vllm:num_requests_waiting");
            let waiting = waiting.or_else(|| page.sum("sglang:num_queue_reqs")).unwrap_or(0.0);
            let total = page.vllm_tokens().or_else(|| page.sum("sglang:max_total_num_tokens"));
            return Self::new(1.0 - used_share, total, waiting);
        }
        let blocks = page.sum("rocstar_engine_kv_blocks").filter(|blocks| *blocks > 0.0)?;
        let free = page.sum("rocstar_engine_kv_blocks_free")?;
        let cached = page.sum("rocstar_engine_kv_blocks_cached").unwrap_or(0.0);
        let waiting = page.sum("rocstar_engine_waiting").unwrap_or(0.0);
        Self::new((free + cached) / blocks, Some(blocks * ROCSTAR_BLOCK_TOKENS), waiting)
    }

    fn new(free_share: f64, total_tokens: Option<f64>, waiting: f64) -> Option<Self> {
        let is_number = free_share.is_finite() && waiting.is_finite();
        is_number.then(|| Self {
            free_share: free_share.clamp(0.0, 1.0),
            total_tokens: total_tokens
                .filter(|tokens| *tokens >= 1.0)
                .map(|tokens| tokens.min(MOST) as usize),
            waiting: waiting.clamp(0.0, MOST) as usize,
        })
    }
}

/// Samples: name, labels, value.
struct Page<'a>(Vec<(&'a str, &'a str, f64)>);

impl<'a> Page<'a> {
    fn read(text: &'a str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(lines.filter_map(sample).collect())
    }

    fn values(&self, name: &str) -> impl Iterator<Item = f64> {
        self.0.iter().filter(move |sample| sample.0 == name).map(|sample| sample.2)
    }

    fn sum(&self, name: &str) -> Option<f64> {
        self.values(name).next()?;
        Some(self.values(name).sum())
    }

    fn mean(&self, name: &str) -> Option<f64> {
        Some(self.sum(name)? / self.values(name).count() as f64)
    }

    /// vLLM tells the size of its cache in labels.
    fn vllm_tokens(&self) -> Option<f64> {
        let info = self.0.iter().find(|sample| sample.0 == "vllm:cache_config_info")?;
        let label = |name: &str| {
            let (_, rest) = info.1.split_once(&format!("{name}=\""))?;
            rest.split('"').next()?.parse::<f64>().ok()
        };
        Some(label("num_gpu_blocks")? * label("block_size")?)
    }
}

fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, rest) = match line.find(['{', ' ']) {
        Some(at) => line.split_at(at),
        None => return None,
    };
    let (labels, value) = match rest.strip_prefix('{') {
        Some(rest) => rest.rsplit_once('}')?,
        None => ("", rest),
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    Some((name, labels, value))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_server_is_understood() {
        let vllm = "# HELP x\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m}\"} 0.25\n\
                    vllm:num_requests_waiting{engine=\"0\"} 3.0\n\
                    vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1.0\n";
        let expected = Load { free_share: 0.75, total_tokens: Some(16_000), waiting: 3 };
        assert_eq!(Load::read(vllm), Some(expected));
        let sglang = "sglang:token_usage{tp_rank=\"0\"} 0.5\nsglang:num_queue_reqs 2\n";
        let expected = Load { free_share: 0.5, total_tokens: None, waiting: 2 };
        assert_eq!(Load::read(sglang), Some(expected));
        let rocstar = "rocstar_engine_kv_blocks 10\nrocstar_engine_kv_blocks_free 2\n\
                       rocstar_engine_kv_blocks_cached 3\nrocstar_engine_waiting 4\n";
        let expected = Load { free_share: 0.5, total_tokens: Some(320), waiting: 4 };
        assert_eq!(Load::read(rocstar), Some(expected));
    }

    #[test]
    fn wild_numbers_are_bounded() {
        let page = "vllm:kv_cache_usage_perc -1e30\nvllm:num_requests_waiting 1e30\n\
                    sglang:max_total_num_tokens 1e30\n";
        let most = 1 << 48;
        let expected = Load { free_share: 1.0, total_tokens: Some(most), waiting: most };
        assert_eq!(Load::read(page), Some(expected));
        assert_eq!(expected.free_tokens(), most);
    }

    #[test]
    fn other_pages_tell_nothing() {
        for page in ["", "<html>", "vllm:kv_cache_usage_perc NaN\n", "a{b 1", "up 1\n"] {
            assert_eq!(Load::read(page), None, "{page}");
        }
    }
}
