// One plot of one sensor over time (uPlot), in the colours of the page, as wide as its place. Its words are for those who
// cannot see it; the table beside it has the numbers.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { onColours } from '../lib/theme'

const HEIGHT = 260

const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

interface Props {
  /** UNIX seconds, rising */
  t: readonly number[]
  v: readonly (number | null)[]
  /** what stands at the axis */
  unit: string
  /** the range of time shown, UNIX seconds */
  from: number
  to: number
  words: string
}

/** Hours for a day, days for more: as this browser writes them. */
function times(range: () => [number, number]): uPlot.Axis.Values {
  return (_, ticks) => {
    const [from, to] = range()
    const form: Intl.DateTimeFormatOptions =
      to - from > 86_400 ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit' }
    return ticks.map(tick => new Date(tick * 1000).toLocaleString([], form))
  }
}

function options(width: number, unit: string, range: () => [number, number]): uPlot.Options {
  const text = colour('--quiet')
  const axis: uPlot.Axis = {
    stroke: text,
    font: '12px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
    grid: { stroke: colour('--edge'), width: 1 },
    ticks: { stroke: colour('--edge'), width: 1 },
  }
  return {
    width,
    height: HEIGHT,
    legend: { show: true, live: true },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: { x: { time: true, range } },
    axes: [
      { ...axis, values: times(range) },
      {
        ...axis,
        size: 60,
        values: (_, ticks) => ticks.map(tick => tick.toLocaleString('en', { maximumFractionDigits: 6 })),
      },
    ],
    series: [
      { label: 'time', value: (_, seconds) => (seconds == null ? '—' : new Date(seconds * 1000).toLocaleString()) },
      {
        label: 'value',
        stroke: colour('--accent'),
        width: 2,
        points: { size: 5 },
        value: (_, value) =>
          value == null ? '—' : `${value.toLocaleString('en', { maximumFractionDigits: 4 })} ${unit}`.trim(),
      },
    ],
  }
}

export function Plot(props: Props) {
  const { t, v, unit, from, to, words } = props
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const newest = useRef(props)
  newest.current = props

  // another unit has another plot; what else changes comes below
  useEffect(() => {
    const box = place.current!
    const data = (): uPlot.AlignedData => [[...newest.current.t], [...newest.current.v]]
    const make = (): void => {
      plot.current?.destroy()
      const range = (): [number, number] => [newest.current.from, newest.current.to]
      plot.current = new uPlot(options(box.clientWidth, unit, range), data(), box)
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
    plot.current?.setData([[...t], [...v]])
  }, [t, v, from, to])

  return <div ref={place} class="plot" role="img" aria-label={words} />
}
