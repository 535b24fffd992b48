// A plot with logarithmic axes as SVG: lines with a mark and its value at each point. Text, so that its diff can be read.
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [720, 420, 70, 170, 50, 55]
const COLOURS = ['#0a6ebd', '#c2410c', '#15803d', '#7e22ce']

const textOf = text => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
const shown = value => value.toLocaleString('en-US')

/** `lines`: [label, [[x, y], …]], x the same in each; all numbers above 0. */
export function plot(title, xLabel, lines) {
  const xs = lines[0][1].map(([x]) => x)
  const ys = lines.flatMap(([, points]) => points.map(([, y]) => y))
  const [low, high] = [Math.floor(Math.log10(Math.min(...ys))), Math.ceil(Math.log10(Math.max(...ys)))]
  const across = (Math.log(xs.at(-1)) - Math.log(xs[0])) / (WIDTH - LEFT - RIGHT)
  const px = x => Math.round(LEFT + (Math.log(x) - Math.log(xs[0])) / across)
  const py = y => Math.round(HEIGHT - BOTTOM - ((Math.log10(y) - low) / (high - low)) * (HEIGHT - TOP - BOTTOM))
  const text = (x, y, words, more = '') => `<text x="${x}" y="${y}" ${more}>${textOf(words)}</text>`
  const grid = Array.from({ length: high - low + 1 }, (_, k) => 10 ** (low + k)).flatMap(y => [
    `<path d="M${LEFT} ${py(y)}H${WIDTH - RIGHT}" stroke="#ddd"/>`,
    text(LEFT - 8, py(y) + 4, shown(y), 'text-anchor="end"'),
  ])
  const ticks = xs.map(x => text(px(x), HEIGHT - BOTTOM + 18, shown(x), 'text-anchor="middle"'))
  const drawn = lines.flatMap(([label, points], k) => {
    const colour = COLOURS[k % COLOURS.length]
    const [, end] = points.at(-1)
    return [
      `<path d="M${points.map(([x, y]) => `${px(x)} ${py(y)}`).join('L')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
      ...points.flatMap(([x, y]) => [
        `<circle cx="${px(x)}" cy="${py(y)}" r="3" fill="${colour}"/>`,
        text(px(x), py(y) + (k % 2 === 0 ? 18 : -9), shown(y), `text-anchor="middle" fill="${colour}" font-size="10"`),
      ]),
      text(WIDTH - RIGHT + 12, py(end) + 4, label, `fill="${colour}"`),
    ]
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="12">`,
    `<title>${textOf(title)}</title>`,
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    text(LEFT, 26, title, 'font-size="15"'),
    ...grid,
    ...ticks,
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, xLabel, 'text-anchor="middle"'),
    ...drawn,
    '</svg>',
    '',
  ].join('\n')
}
