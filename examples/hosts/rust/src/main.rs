//! Runs a model on an image of ones and prints its scores.

mod kiln;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: host MODEL.so")?;
    let model = kiln::Model::open(&path)?;
    let image = vec![1f32; 3 * 8 * 8];
    let scores = model.run(&image, &[1, 3, 8, 8])?;
    for score in &scores.data()[..scores.shape()[1] as usize] {
        println!("{:.6}", score);
    }
    Ok(())
}
