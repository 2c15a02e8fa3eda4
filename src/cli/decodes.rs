//! Who decodes a pipeline's JPEGs, in words: for `explain` and `doctor`.

use forebay::decoder::Lane;
use forebay::graph::spec::{Backend, DecoderSpec, Placement};

/// Who takes JPEGs first on this machine's CPU, and why.
pub(crate) fn lane(decoder: &DecoderSpec) -> Lane {
    Lane::first(decoder.backend == Backend::Turbo)
}

/// Who decodes on the CPU.
pub(crate) fn on_cpu(decoder: &DecoderSpec) -> String {
    match lane(decoder) {
        Lane::Own => {
            "JPEGs by forebay, what is rare in them by libjpeg-turbo: the same pixels".into()
        }
        lane => format!("JPEGs by {}, {lane}", lane.decoder()),
    }
}

/// Whether nvJPEG is asked for.
pub(crate) fn asks_nvjpeg(decoder: &DecoderSpec) -> bool {
    decoder.device == Placement::Mixed && !decoder.is_exact()
}

/// What a GPU decodes, and who does there; `None`: nothing.
pub(crate) fn on_gpu(decoder: &DecoderSpec, nvjpeg: bool) -> Option<String> {
    let nvjpeg = nvjpeg && asks_nvjpeg(decoder);
    let which = if nvjpeg { "small JPEGs" } else { "JPEGs" };
    let own = decoder.own_on_gpu().then(|| format!("{which} by forebay"));
    let large = nvjpeg.then(|| match decoder.least() {
        0 => "JPEGs by nvJPEG".to_string(),
        split => format!("those of more than {split} pixels by nvJPEG"),
    });
    let all: Vec<String> = own.into_iter().chain(large).collect();
    (!all.is_empty()).then(|| all.join(" and "))
}

/// Why nothing, or less than asked for, is decoded on a GPU.
pub(crate) enum Missing {
    Gpu(String),
    Nvjpeg(String),
}

/// What a pipeline comes to on this machine, and why.
pub(crate) fn here(decoder: &DecoderSpec, missing: Option<Missing>) -> (String, String) {
    if decoder.device == Placement::Cpu {
        return (on_cpu(decoder), "the pipeline's decoder.device is \"cpu\"".into());
    }
    let (on_gpu, why) = match missing {
        Some(Missing::Gpu(why)) => (None, why),
        Some(Missing::Nvjpeg(why)) if asks_nvjpeg(decoder) => (on_gpu(decoder, false), why),
        _ if asks_nvjpeg(decoder) => {
            (on_gpu(decoder, true), "`forebay bench` counts them and says why".into())
        }
        _ => {
            let why = "decoder.exact or decoder.backend keeps images from nvJPEG";
            (on_gpu(decoder, false), why.into())
        }
    };
    let cpu = on_cpu(decoder);
    let who = on_gpu.map_or(cpu.clone(), |on_gpu| format!("{on_gpu} on the GPU; else {cpu}"));
    (who, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_with_and_without_a_gpu() {
        let spec =
            |backend| DecoderSpec { device: Placement::Mixed, backend, ..Default::default() };
        let cpu = |backend| on_cpu(&spec(backend));
        let none = || Some(Missing::Gpu("no driver".into()));
        let no_nvjpeg = || Some(Missing::Nvjpeg("no nvJPEG".into()));
        for backend in Backend::NAMES.map(|(_, backend)| backend) {
            let (who, why) = here(&spec(backend), none());
            assert_eq!((who, why.as_str()), (cpu(backend), "no driver"));
        }
        assert_ne!(cpu(Backend::Auto), cpu(Backend::Turbo));

        let both =
            "small JPEGs by forebay and those of more than 4096 pixels by nvJPEG on the GPU; else ";
        let (who, why) = here(&spec(Backend::Auto), None);
        assert!(who.starts_with(both) && why.contains("bench"), "{who}: {why}");
        let (who, why) = here(&spec(Backend::Auto), no_nvjpeg());
        assert!(who.starts_with("JPEGs by forebay on the GPU; else "), "{who}");
        assert_eq!(why, "no nvJPEG");
        let (who, why) = here(&spec(Backend::Own), no_nvjpeg());
        assert!(who.starts_with("JPEGs by forebay on the GPU; else "), "{who}");
        assert!(why.contains("decoder.backend"), "{why}");
        let (who, _) = here(&spec(Backend::Nvjpeg), None);
        assert!(who.starts_with("JPEGs by nvJPEG on the GPU; else "), "{who}");
        let (who, why) = here(&spec(Backend::Nvjpeg), no_nvjpeg());
        assert_eq!((who, why.as_str()), (cpu(Backend::Nvjpeg), "no nvJPEG"));
        let (who, why) = here(&spec(Backend::Turbo), None);
        assert!(who == cpu(Backend::Turbo) && why.contains("decoder.backend"), "{who}: {why}");

        let on_cpu = DecoderSpec::default();
        let (who, why) = here(&on_cpu, None);
        assert!(who == cpu(Backend::Auto) && why.contains("decoder.device"), "{who}: {why}");
    }
}
