// Work on (batch, channel, z, y, x); missing dimensions have size one. Where element i of a dense tensor is.
{% if planes is defined and planes %}
// Planes lie one behind the other, so that channels of all images are counted together.
{% endif %}
struct At { batch: u32, channel: u32, z: u32, y: u32, x: u32 }

fn place(i: u32, depth: u32, height: u32, width: u32) -> At {
    var r = i;
{% if channels_last %}
    let c = r % p.channels;
    r = r / p.channels;
{% endif %}
    let x = r % width;
    r = r / width;
{% if dims is defined and dims < 2 %}
    let y = 0u;
{% else %}
    let y = r % height;
    r = r / height;
{% endif %}
{% if dims is defined and dims < 3 %}
    let z = 0u;
{% else %}
    let z = r % depth;
    r = r / depth;
{% endif %}
{% if channels_last %}
    return At(r, c, z, y, x);
{% elif planes is defined and planes %}
    return At(0u, r, z, y, x);
{% else %}
    return At(r / p.channels, r % p.channels, z, y, x);
{% endif %}
}
