// Writes an animated GIF: one palette for all frames, LZW as the format has it.

/** frames: ImageData of one size; delay in hundredths of a second, the last frame stays longer. */
export function encodeGif(frames, delay) {
  const { width, height } = frames[0];
  const palette = choosePalette(frames);
  const bytes = [..."GIF89a"].map((letter) => letter.charCodeAt(0));
  const word = (value) => bytes.push(value & 255, (value >> 8) & 255);
  word(width);
  word(height);
  bytes.push(0xf7, 0, 0); // 256 colours for all frames
  for (let i = 0; i < 256; i++) bytes.push(...(palette.colours[i] ?? [0, 0, 0]));
  bytes.push(0x21, 0xff, 11, ...[..."NETSCAPE2.0"].map((letter) => letter.charCodeAt(0)), 3, 1, 0, 0, 0);
  frames.forEach((frame, number) => {
    bytes.push(0x21, 0xf9, 4, 0);
    word(number === frames.length - 1 ? 4 * delay : delay);
    bytes.push(0, 0, 0x2c, 0, 0, 0, 0);
    word(width);
    word(height);
    bytes.push(0, 8);
    const packed = compress(palette.indices(frame));
    for (let start = 0; start < packed.length; start += 255) {
      const part = packed.slice(start, start + 255);
      bytes.push(part.length);
      for (const byte of part) bytes.push(byte);
    }
    bytes.push(0);
  });
  bytes.push(0x3b);
  return new Blob([new Uint8Array(bytes)], { type: "image/gif" });
}

const key = (data, i) => ((data[i] >> 3) << 10) | ((data[i + 1] >> 3) << 5) | (data[i + 2] >> 3);

/** The 256 most frequent colours, of 32 levels each; others become the nearest. */
function choosePalette(frames) {
  const counts = new Map();
  for (const { data } of frames) {
    for (let i = 0; i < data.length; i += 4) counts.set(key(data, i), (counts.get(key(data, i)) ?? 0) + 1);
  }
  const chosen = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, 256);
  const colours = chosen.map((k) => [k >> 10, (k >> 5) & 31, k & 31].map((level) => Math.round((level * 255) / 31)));
  const places = new Map(chosen.map((k, i) => [k, i]));
  const nearest = (k) => {
    const levels = [k >> 10, (k >> 5) & 31, k & 31].map((level) => (level * 255) / 31);
    const distance = (colour) => colour.reduce((sum, value, i) => sum + (value - levels[i]) ** 2, 0);
    let best = 0;
    colours.forEach((colour, i) => (best = distance(colour) < distance(colours[best]) ? i : best));
    places.set(k, best);
    return best;
  };
  const indices = ({ data }) => {
    const found = new Uint8Array(data.length / 4);
    for (let i = 0; i < data.length; i += 4) found[i / 4] = places.get(key(data, i)) ?? nearest(key(data, i));
    return found;
  };
  return { colours, indices };
}

/** LZW with codes of 9 to 12 bits, beginning with a clear code. */
function compress(indices) {
  const CLEAR = 256;
  const END = 257;
  const out = [];
  let bits = 0;
  let held = 0;
  let size = 9;
  let next = END + 1;
  let table = new Map();
  const write = (code) => {
    held |= code << bits;
    bits += size;
    while (bits >= 8) {
      out.push(held & 255);
      held >>>= 8;
      bits -= 8;
    }
  };
  write(CLEAR);
  let prefix = indices[0];
  for (let i = 1; i < indices.length; i++) {
    const entry = (prefix << 8) | indices[i];
    const known = table.get(entry);
    if (known !== undefined) {
      prefix = known;
      continue;
    }
    write(prefix);
    if (next === 4096) {
      write(CLEAR);
      table = new Map();
      size = 9;
      next = END + 1;
    } else {
      if (next === 1 << size) size += 1;
      table.set(entry, next);
      next += 1;
    }
    prefix = indices[i];
  }
  write(prefix);
  write(END);
  if (bits) out.push(held & 255);
  return out;
}
