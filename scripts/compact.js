// A picture with a palette of 256 colours instead of 16 million, as base64. Pages of ours have few colours and the
// shades between them, so that nobody sees the difference.
async (picture) => {
  const bytes = Uint8Array.from(atob(picture), (each) => each.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
  const { width, height } = bitmap;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(bitmap, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);

  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 256).map(([pixel]) => pixel);
  const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255, pixel >>> 24];
  const colours = palette.map(parts);
  const far = (one, other) => one.reduce((sum, each, place) => sum + (each - other[place]) ** 2, 0);
  const places = new Map(palette.map((pixel, place) => [pixel, place]));
  for (const pixel of counts.keys()) {
    if (places.has(pixel)) continue;
    const colour = parts(pixel);
    const distances = colours.map((each) => far(colour, each));
    places.set(pixel, distances.indexOf(Math.min(...distances)));
  }

  const lines = new Uint8Array((width + 1) * height);
  pixels.forEach((pixel, at) => { lines[at + Math.floor(at / width) + 1] = places.get(pixel); });
  const squeezed = new Blob([lines]).stream().pipeThrough(new CompressionStream("deflate"));

  const number = (value) => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
  const check = (data) => {
    let sum = ~0;
    for (const byte of data) {
      sum ^= byte;
      for (let bit = 0; bit < 8; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum >>> 0;
  };
  const chunk = (name, data) => {
    const body = [...new TextEncoder().encode(name), ...data];
    return [...number(data.length), ...body, ...number(check(body))];
  };
  const file = [
    ...[137, 80, 78, 71, 13, 10, 26, 10],
    ...chunk("IHDR", [...number(width), ...number(height), 8, 3, 0, 0, 0]),
    ...chunk("PLTE", colours.flatMap((each) => each.slice(0, 3))),
    ...chunk("tRNS", colours.map((each) => each[3])),
    ...chunk("IDAT", [...new Uint8Array(await new Response(squeezed).arrayBuffer())]),
    ...chunk("IEND", []),
  ];
  let text = "";
  for (const byte of file) text += String.fromCharCode(byte);
  return btoa(text);
}
