//! Which runs are traced, and how settings are read.

use super::*;

const LOW: &str = "4bf92f3577b34da60000000000000001";
const HIGH: &str = "4bf92f3577b34da6ffffffffffffff01";

fn origin(flags: &str) -> TraceOrigin {
    TraceOrigin { parent: Some("00f067aa0ba902b7".into()), flags: Some(flags.into()), ..TraceOrigin::default() }
}

#[test]
fn a_run_is_traced_as_its_caller_says_or_as_is_set() {
    let none = TraceOrigin::default();
    let (yes, no) = (origin("01"), origin("00"));
    for (sampler, ratio, trace, origin, expected) in [
        (Sampler::AlwaysOn, 0.0, LOW, &no, true),
        (Sampler::AlwaysOff, 1.0, LOW, &yes, false),
        (Sampler::ParentbasedAlwaysOn, 1.0, LOW, &none, true),
        (Sampler::ParentbasedAlwaysOn, 1.0, LOW, &no, false),
        (Sampler::ParentbasedAlwaysOff, 1.0, LOW, &none, false),
        (Sampler::ParentbasedAlwaysOff, 1.0, LOW, &yes, true),
        (Sampler::TraceIdRatio, 0.5, LOW, &no, true),
        (Sampler::TraceIdRatio, 0.5, HIGH, &yes, false),
        (Sampler::TraceIdRatio, 1.0, HIGH, &no, true),
        (Sampler::TraceIdRatio, 0.0, LOW, &yes, false),
        (Sampler::ParentbasedTraceIdRatio, 0.5, HIGH, &yes, true),
        (Sampler::ParentbasedTraceIdRatio, 0.5, HIGH, &none, false),
        (Sampler::AlwaysOn, 1.0, "order 4711", &none, false),
    ] {
        assert_eq!(is_sampled(sampler, ratio, trace, origin), expected, "{sampler:?} {ratio} {trace} {origin:?}");
        let config = Telemetry {
            endpoint: Some("http://localhost:4318/".into()),
            sampler,
            sampler_arg: ratio,
            ..Telemetry::default()
        };
        let traces = Traces::new(&config, "pes-0", Arc::new(Egress::new(Duration::ZERO))).unwrap().unwrap();
        let marked = traces.with_sampled_flag(trace, origin.clone());
        assert_eq!(marked.flags.as_deref(), Some(if expected { "01" } else { "00" }));
        assert_eq!(is_sampled(sampler, ratio, trace, &marked), expected, "a later decision is the same");
    }
}

#[test]
fn settings_are_read_as_opentelemetry_writes_them() {
    let config = Telemetry {
        endpoint: Some("http://localhost:4318/".into()),
        headers: Some("authorization=Bearer%20k, x-scope=a=b".into()),
        resource_attributes: Some("service.name=mine,place=here%2C there".into()),
        ..Telemetry::default()
    };
    assert_eq!(settings::url(&config).unwrap().unwrap().as_str(), "http://localhost:4318/v1/traces");
    let headers = settings::headers(&config).unwrap();
    assert_eq!(
        (&headers["authorization"], &headers["x-scope"]),
        (&"Bearer k".parse().unwrap(), &"a=b".parse().unwrap())
    );
    let resource = settings::resource(&config, "pes-0").unwrap();
    let names: Vec<&str> = resource.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["service.version", "service.instance.id", "service.name", "place"]);
    assert_eq!((&resource[1].1, &resource[3].1), (&"pes-0".into(), &"here, there".into()));

    let whole = Telemetry { traces_endpoint: Some("https://c.example/t".into()), ..config.clone() };
    assert_eq!(settings::url(&whole).unwrap().unwrap().as_str(), "https://c.example/t");
    assert_eq!(settings::url(&Telemetry { disabled: true, ..config.clone() }), Ok(None));
    assert_eq!(settings::url(&Telemetry::default()), Ok(None));
    for (wrong, why) in [
        (Telemetry { endpoint: Some("collector:4318".into()), ..config.clone() }, "http://"),
        (Telemetry { endpoint: Some("http://me:hush/1@collector".into()), ..config.clone() }, "invalid port number"),
        (Telemetry { traces_endpoint: Some("ftp://me:hush@collector".into()), ..config.clone() }, "http://"),
        (Telemetry { headers: Some("Authorization: Bearer hush=".into()), ..config.clone() }, "entry 1"),
        (Telemetry { headers: Some("a=b,hush=%ff".into()), ..config.clone() }, "entry 2"),
        (Telemetry { headers: Some("Bearer".into()), ..config.clone() }, "name=value"),
        (Telemetry { headers: Some("a b=c".into()), ..config.clone() }, "entry 1"),
        (Telemetry { sampler_arg: 1.5, ..config }, "from 0 to 1"),
    ] {
        let egress = Arc::new(Egress::new(Duration::ZERO));
        let said = Traces::new(&wrong, "pes-0", egress).err().expect("it is refused");
        assert!(said.contains(why) && said.contains("telemetry.") && !said.contains("hush"), "{said}");
    }
}
