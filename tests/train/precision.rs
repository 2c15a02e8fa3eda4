//! bfloat16 on the CPU; float16 there is refused.

use crate::train::optimizer::{Optimizer, Options};
use crate::train::precision::Precision;
use crate::train::resnet::Mode;
use crate::{batch, model, seeded};
use tch::{Device, Kind, Reduction, Tensor, no_grad};

fn bf16<T>(f: impl FnOnce() -> T) -> T {
    let _autocast = Precision::Bf16Mixed.autocast(Device::Cpu).unwrap();
    f()
}

/// What a product of f32 is computed in.
fn kind() -> Kind {
    let one = Tensor::ones([1, 1], tch::kind::FLOAT_CPU);
    one.matmul(&one).kind()
}

#[test]
fn names_are_lightnings_and_float16_is_refused_on_the_cpu() {
    for name in ["32", "16-mixed", "bf16-mixed"] {
        let precision: Precision = name.parse().unwrap();
        assert_eq!(precision.to_string(), name);
        let checked = precision.check(Device::Cpu);
        match precision {
            Precision::F16Mixed => {
                assert!(checked.unwrap_err().to_string().contains("bf16-mixed"));
                precision.check(Device::Cuda(0)).unwrap();
            }
            _ => checked.unwrap(),
        }
    }
    assert!("16".parse::<Precision>().unwrap_err().to_string().contains("`16`"));
}

#[test]
fn bf16_is_near_f32_and_its_weights_and_gradients_are_f32() {
    let _turn = seeded(5);
    let (variables, model) = model(crate::Stem::Imagenet, 10);
    let (images, labels) = batch(8, 10);
    // With running statistics: those of 8 samples of one pixel magnify every rounding.
    let expected = no_grad(|| model.forward(&images, Mode::Eval)).unwrap();
    let logits = bf16(|| model.forward(&images, Mode::Eval)).unwrap();
    assert_eq!((logits.kind(), kind()), (Kind::BFloat16, Kind::Float));
    let logits = logits.to_kind(Kind::Float);
    let off = ((&logits - &expected).norm() / expected.norm()).double_value(&[]);
    println!("logits are off by {off}");
    assert!(off > 1e-4 && off < 0.03, "logits are off by {off}");

    logits.cross_entropy_loss(&labels, None::<Tensor>, Reduction::Mean, -100, 0.0).backward();
    let named: Vec<_> = variables.variables().into_iter().collect();
    let mut optimizer = Optimizer::new(Options::default(), named).unwrap();
    let gradients = optimizer.gradients();
    assert_eq!(gradients.len(), 62);
    optimizer.step(1e-3, None, None).unwrap();
    let floats = |tensors: Vec<Tensor>| tensors.iter().all(|t| t.kind() == Kind::Float);
    assert!(floats(gradients) && floats(variables.trainable_variables()));
    assert!(optimizer.state().iter().all(|(_, tensor)| tensor.kind() == Kind::Float));
}

#[test]
fn it_ends_with_its_guard_and_leaves_what_was() {
    fn early() -> Result<(), tch::TchError> {
        let _autocast = Precision::Bf16Mixed.autocast(Device::Cpu)?;
        assert_eq!(kind(), Kind::BFloat16);
        let (a, b) = (Tensor::from(1_f32).view((1, 1)), Tensor::from_slice(&[1_f32, 2.0]));
        a.f_matmul(&b).map(drop)
    }
    early().unwrap_err();
    assert_eq!(kind(), Kind::Float);
    bf16(|| {
        bf16(|| assert_eq!(kind(), Kind::BFloat16));
        assert_eq!(kind(), Kind::BFloat16);
    });
    assert_eq!(kind(), Kind::Float);
    let none = Precision::F32.autocast(Device::Cpu).unwrap();
    assert!(none.is_none() && kind() == Kind::Float);
}

/// Checkpointing of activations runs a block without gradients, and again with them.
#[test]
fn a_cast_serves_one_use() {
    let x = Tensor::from_slice2(&[[1_f32, 2.0]]);
    let mut weight = Tensor::from_slice2(&[[3_f32], [4.0]]).set_requires_grad(true);
    bf16(|| {
        let product = || x.matmul(&weight).to_kind(Kind::Float).sum(Kind::Float);
        assert_eq!(no_grad(product).double_value(&[]), 11.0);
        product().backward();
        assert_eq!(Vec::<f32>::try_from(weight.grad().flatten(0, -1)).unwrap(), [1.0, 2.0]);
        no_grad(|| weight *= 2);
        assert_eq!(no_grad(|| x.matmul(&weight)).double_value(&[0, 0]), 22.0);
    });
}
