"""Random words as kernels make them of a stream's key and place: a counter for four elements, as `kernels/random`."""

_MADE = {
    "uniform": "return vec4({});",
    "normal": "return vec4(philox_normal2(bits.x, bits.y), philox_normal2(bits.z, bits.w));",
}
_UNIFORM = ", ".join([f"philox_uniform_f32(bits.{c})" for c in "xyzw"])


def emit(kernel, kind: str, operand: str) -> str:
    """The name of the function from a counter, beyond the stream's place, to the numbers of its four elements."""
    name = f"{kind}_{operand}"
    words = [f"bitcast<u32>(read_{operand}({i}))" for i in range(4)]
    kernel.helpers[name] = f"""fn {name}(counter: u32) -> vec4<f32> {{
    let place = vec4<u32>({words[2]}, {words[3]}, 0u, 0u);
    let bits = philox(philox_advance(place, vec2<u32>(counter, 0u)), vec2<u32>({words[0]}, {words[1]}));
    {_MADE[kind].format(_UNIFORM)}
}}"""
    return name
