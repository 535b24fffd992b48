// One plot of one sensor over time (uPlot), in the colours of the page, as wide as its container. Its text is for users
// who cannot see it; the table next to it has the numbers.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { numberText } from '../../../units/display'
import { timeLabels, timeSpace, timeSteps, valueLabels } from '../lib/axis'
import type { PlotLine } from '../lib/stored'
import { onColours } from '../lib/theme'

const HEIGHT = 260

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

interface Props {
  line: PlotLine
  /** the label of the axis */
  unit: string
  /** the range of time shown, UNIX seconds */
  from: number
  to: number
  words: string
}

const FONT = '12px system-ui, sans-serif'
const pen = document.createElement('canvas').getContext('2d')

function widthOf(text: string): number {
  if (!pen) return text.length * 8
  pen.font = FONT
  return pen.measureText(text).width
}

function options(width: number, unit: string, range: () => [number, number]): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: colour('--quiet'),
    font: FONT,
    labelFont: FONT,
    grid: { stroke: colour('--edge'), width: 1 },
    ticks: { stroke: colour('--edge'), width: 1 },
  }
  const span = (): number => range()[1] - range()[0]
  const value = (_: uPlot, value: number | null): string =>
    value == null ? '—' : `${numberText(value)} ${unit}`.trim()
  const edge: uPlot.Series = { stroke: 'transparent', points: { show: false }, value }
  return {
    width,
    height: HEIGHT,
    legend: { show: true, live: true },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: true, range } },
    axes: [
      {
        ...axis,
        space: () => timeSpace(...range(), widthOf),
        incrs: () => timeSteps(span()),
        values: (_, ticks) => timeLabels(ticks, span()),
      },
      {
        ...axis,
        ...(unit !== '' && { label: unit, labelSize: 18, labelGap: 2 }),
        size: (_, labels) => Math.ceil(Math.max(20, ...(labels ?? []).map(widthOf))) + 16,
        values: (_, ticks, _axis, _space, step) => valueLabels(ticks, step),
      },
    ],
    series: [
      { label: 'time', value: (_, seconds) => (seconds == null ? '—' : new Date(seconds * 1000).toLocaleString()) },
      { label: 'mean', stroke: colour('--accent'), width: 2, points: { size: 5 }, value },
      { ...edge, label: 'min' },
      { ...edge, label: 'max' },
    ],
    bands: [{ series: [3, 2], fill: colour('--accent-back') }],
  }
}

const dataOf = ({ t, mean, min, max }: PlotLine): uPlot.AlignedData => [t, mean, min, max]

export function Plot(props: Props) {
  const { line, unit, from, to, words } = props
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const newest = useRef(props)
  newest.current = props

  // another unit needs another plot; other changes are handled below
  useEffect(() => {
    const box = place.current!
    const make = (): void => {
      plot.current?.destroy()
      const range = (): [number, number] => [newest.current.from, newest.current.to]
      plot.current = new uPlot(options(box.clientWidth, unit, range), dataOf(newest.current.line), box)
    }
    make()
    const seen = new ResizeObserver(() => {
      if (plot.current && plot.current.width !== box.clientWidth && box.clientWidth > 0)
        plot.current.setSize({ width: box.clientWidth, height: HEIGHT })
    })
    seen.observe(box)
    const stop = onColours(make)
    return () => {
      seen.disconnect()
      stop()
      plot.current?.destroy()
      plot.current = null
    }
  }, [unit])

  useEffect(() => {
    plot.current?.setData(dataOf(line))
  }, [line, from, to])

  return <div ref={place} class="plot" role="img" aria-label={words} />
}
