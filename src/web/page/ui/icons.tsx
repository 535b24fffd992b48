// The icons of the navigation: 24 × 24, lines only, in the colour of the surrounding text.
const SHAPES = {
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-4H4zM14 8h6V4h-6z',
  readings: 'M3 12h4l3-8 4 16 3-8h4',
  devices: 'M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4',
  packets: 'M12 3l8 4.5v9L12 21l-8-4.5v-9zM4 7.5l8 4.5 8-4.5M12 12v9',
  switches: 'M8 7h8a4 4 0 010 8H8a4 4 0 010-8zM8 11h.01M6 20h12',
  settings: 'M4 6h10M18 6h2M4 12h2M10 12h10M4 18h8M16 18h4M16 4v4M8 10v4M14 16v4',
  console: 'M4 5h16v14H4zM7 9l3 3-3 3M12 15h5',
  users: 'M9 11a4 4 0 100-8 4 4 0 000 8zM2 21c0-4 3-6 7-6s7 2 7 6M16 3a4 4 0 010 8M18 15c2.5.6 4 2.5 4 6',
  log: 'M6 3h9l4 4v14H6zM9 11h7M9 15h7M9 7h3',
  sections: 'M4 4h16v5H4zM4 12h7v8H4zM14 12h6v8h-6z',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
} as const

export type IconName = keyof typeof SHAPES

export const Icon = ({ name }: { name: IconName }) => (
  <svg class="icon" viewBox="0 0 24 24" width="22" height="22" aria-hidden="true" focusable="false">
    <path d={SHAPES[name]} />
  </svg>
)
