// garden: shows for each bed when it was last watered enough, from soil moisture sensors of any node of this gateway.
// Put it into the plugin folder (see docs/plugins.md) as garden.mjs.

/** moisture below which a bed wants water, unless the settings say otherwise */
const DRY_PERCENT = 25

export default {
  name: 'garden',
  summary: 'soil moisture of the beds',
  defaults: { dry_percent: DRY_PERCENT, sensors: 'soil_' },
  restart: true,

  create(host) {
    const { dry_percent, sensors } = host.settings()
    /** bed → its newest moisture */
    const beds = new Map()

    class BedsProvider extends host.display.DisplayProvider {
      constructor() {
        super('garden', 'beds', 'Garden beds')
        this.category = 'garden'
        this.priority = 60
        this.refresh_interval_s = 5
        this.preferred_format = 'table'
      }

      // the data; JSON, table, tree and HTML are made of it
      extractData() {
        return [...beds].map(([bed, { percent, at }]) => ({
          bed,
          moisture: percent,
          water: percent < dry_percent ? 'now' : 'no',
          measured: new Date(at).toISOString(),
        }))
      }

      // a format of its own, for the terminal
      formatText(rows) {
        if (rows.length === 0) return 'no bed has reported yet'
        return rows
          .map(row => `${row.bed.padEnd(12)} ${bar(row.moisture)} ${row.moisture} %  water: ${row.water}`)
          .join('\n')
      }
    }

    const provider = new BedsProvider()
    let stopListening = () => {}

    return {
      start() {
        stopListening =
          host.gateway?.onFact(({ fact }) => {
            for (const { id, value } of fact.sensors)
              if (id.startsWith(sensors) && value !== null)
                beds.set(id.slice(sensors.length), { percent: value, at: fact.tRaw })
          }) ?? stopListening
      },
      stop() {
        stopListening()
      },
      status: () => ({ beds: beds.size }),
      displayProviders: () => [provider],
      getCliCommands: () => ({
        dry: {
          summary: 'names of the beds that want water',
          reads: true,
          run: () => ({
            value: { dry: [...beds].filter(([, { percent }]) => percent < dry_percent).map(([bed]) => bed) },
          }),
        },
      }),
    }
  },
}

const bar = percent => '#'.repeat(Math.round(percent / 5)).padEnd(20, '.')
