// Work on (batch, channel, z, y, x); missing dimensions have size one. Where element i of a dense tensor is.
struct At { batch: u32, channel: u32, z: u32, y: u32, x: u32 }

fn place(i: u32, depth: u32, height: u32, width: u32) -> At {
    var r = i;
{% if channels_last %}
    let c = r % p.channels;
    r = r / p.channels;
{% endif %}
    let x = r % width;
    r = r / width;
    let y = r % height;
    r = r / height;
    let z = r % depth;
    r = r / depth;
{% if channels_last %}
    return At(r, c, z, y, x);
{% else %}
    return At(r / p.channels, r % p.channels, z, y, x);
{% endif %}
}
