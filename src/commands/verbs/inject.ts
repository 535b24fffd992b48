// inject: runs readings through the stages of the pipeline without sending them. Each stage prints its result, up to
// the requested one (specification, "CLI commands"). It works without an id (AID 0) and with separate templates, so
// that it changes nothing in a running gateway. Refused rows are printed with the reason; exit 1 if none was accepted.
import { plain, textOf } from '../../display'
import { isAssigned } from '../../lib/assigned-id'
import { readingsAsText } from '../../units/display'
import type { CommandContext } from '../context'
import type { OptionValues, Verb } from '../verb'
import { READING_OPTIONS, readingsOf, readSensorsFile, refusedRows, refuseFile } from './transmit'

const STAGES = ['standardize', 'compress', 'fuse', 'full'] as const

async function stages({ config }: CommandContext, options: OptionValues): Promise<Record<string, unknown>> {
  const [{ Standardizer }, { Engine }, { Fusion }, { wireUnits }] = await Promise.all([
    import('../../pipeline/standardize'),
    import('../../pipeline/compress'),
    import('../../pipeline/fuse'),
    import('../../units/wire'),
  ])
  const { engine_settings, payload_switches, assigned_id, device_id } = config.config
  const { precision, unit_dialect: unitDialect } = engine_settings
  const standardizer = new Standardizer('', { settings: { precision, unit_dialect: unitDialect, payload_switches } })
  const sensors = readingsOf(options)
  const device = String(options['device-id'] ?? (device_id || 'UNKNOWN'))
  const fact = standardizer.standardize(device, String(options.status ?? 'ONLINE'), sensors)
  const rejected = refusedRows(standardizer.lastRejected)
  const value: Record<string, unknown> = { standardize: fact }
  const refused = rejected.length > 0 ? { rejected } : {}
  if (options.module === 'standardize') return { ...value, ...refused }
  const engine = new Engine(null, { precision, unitDialect, units: wireUnits() })
  const text = engine.compress(fact)
  value.compress = text
  if (options.module === 'compress') return { ...value, ...refused }
  const aid = isAssigned(assigned_id) ? assigned_id : 0
  const packet = new Fusion(null, { engine, localId: aid, registryDir: null }).runEngine(`${aid};${text}`, 'FULL')
  value.fuse = { hex: Buffer.from(packet).toString('hex'), length: packet.length }
  return { ...value, ...refused }
}

export const inject: Verb = {
  name: 'inject',
  summary: 'run readings through the pipeline without sending them',
  description: 'Stages: standardize, compress, fuse (always a FULL packet), full (all of them).',
  examples: [
    'os-node inject --module full --value 21.5 --unit Cel',
    `os-node inject --module standardize --sensors '[["P1","OK",1013,"hPa"]]'`,
  ],
  options: {
    module: { type: 'string', value: 'STAGE', choices: STAGES, default: 'full', help: 'last stage to run' },
    ...READING_OPTIONS,
  },
  operands: ['module'],
  where: 'either',
  prepare: readSensorsFile,
  async run(context, options) {
    refuseFile(options)
    const value = await stages(context, options)
    const offered = readingsOf(options).length
    const none = offered > 0 && Array.isArray(value.rejected) && value.rejected.length === offered
    return { value, exitCode: none ? 1 : 0 }
  },
  text: value => textOf(plain({ ...value, standardize: readingsAsText(value.standardize as object) })),
}
