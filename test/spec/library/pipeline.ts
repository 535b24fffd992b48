// Specification, "Pipeline components", "Fact dict", "Binary frame", "Command byte constants".
import assert from 'node:assert/strict'
import { Engine, Fusion, Standardizer } from '../../../src/index'
import type { Table } from '../rows'
import * as is from '../shape'
import { constructorParameters, parameters, sameParameters } from '../signature'
import { configFile, library, ROWS, T } from '../world'
import { decoded } from './node'

/** Specification, "Fact dict" */
const fact = is.record({
  id: is.exactly('DEV'),
  s: is.exactly('ONLINE'),
  t: is.exactly(T),
  s1_id: is.exactly('T1'),
  s1_v: is.number,
  s1_u: is.string,
  s2_id: is.exactly('P1'),
  s2_v: is.number,
  s2_u: is.string,
})

const standardized = () => new library.Standardizer('no such file').standardize('DEV', 'ONLINE', ROWS, { t: T })
const commands: Record<string, number> = {
  DATA_FULL: 0x3f,
  DATA_FULL_SEC: 0x40,
  DATA_DIFF: 0xaa,
  DATA_DIFF_SEC: 0xab,
  DATA_HEART: 0x7f,
  DATA_HEART_SEC: 0x80,
  ID_REQUEST: 0x01,
  ID_ASSIGN: 0x02,
  ID_POOL_REQ: 0x03,
  ID_POOL_RES: 0x04,
  HANDSHAKE_ACK: 0x05,
  HANDSHAKE_NACK: 0x06,
  PING: 0x09,
  PONG: 0x0a,
  TIME_REQUEST: 0x0b,
  TIME_RESPONSE: 0x0c,
  SECURE_DICT_READY: 0x0d,
  SECURE_CHANNEL_ACK: 0x0e,
}

export const pipelineTables: readonly Table[] = [
  {
    title: 'Pipeline components',
    rows: [
      {
        name: "standardizer(config_path='Config.json')",
        observe: () =>
          sameParameters(constructorParameters(Standardizer), ["configPath = 'Config.json'"], 'Standardizer'),
      },
      {
        name: 'standardizer.standardize',
        observe: () => {
          const wanted = ['deviceId', 'deviceStatus', 'sensors', 'kwargs = {}']
          sameParameters(parameters(Standardizer.prototype.standardize), wanted, 'standardize')
          fact(standardized())
        },
      },
      {
        name: 'engine(config_path=none)',
        observe: () => sameParameters(constructorParameters(Engine), ['configPath = null'], 'Engine'),
      },
      {
        name: 'engine.compress',
        observe: () => {
          sameParameters(parameters(Engine.prototype.compress), ['fact'], 'compress')
          is.string(new library.Engine().compress(standardized()))
        },
      },
      {
        name: 'engine.decompress',
        observe: () => {
          sameParameters(parameters(Engine.prototype.decompress), ['b62Str'], 'decompress')
          const engine = new library.Engine()
          const { id, s, s1_id, s2_v } = engine.decompress(engine.compress(standardized()))
          assert.deepEqual([id, s, s1_id, s2_v], ['DEV', 'ONLINE', 'T1', standardized().s2_v])
        },
      },
      {
        name: 'fusion(config_path=none)',
        observe: () => sameParameters(constructorParameters(Fusion), ['configPath = null'], 'Fusion'),
      },
      {
        name: "fusion.run_engine(raw_input_str, strategy='DIFF')",
        observe: () => {
          sameParameters(parameters(Fusion.prototype.runEngine), ['rawInputStr', "strategy = 'DIFF'"], 'runEngine')
          const text = `7;${new library.Engine().compress(standardized())}`
          const fusion = new library.Fusion()
          is.bytes(fusion.runEngine(text, 'FULL'))
          assert.equal(fusion.runEngine(text)[0], commands.DATA_HEART, 'nothing changed')
        },
      },
      {
        name: 'fusion.decompress',
        observe: () => {
          sameParameters(parameters(Fusion.prototype.decompress), ['rawBytes'], 'decompress')
          const fusion = new library.Fusion()
          const packet = fusion.runEngine(`7;${new library.Engine().compress(standardized())}`, 'FULL')
          decoded(fusion.decompress(packet))
        },
      },
      {
        name: 'frame: [CMD][route_count][AID:4][TID][TS:6][BODY][CRC8][CRC16:2]',
        observe: () => {
          const packet = new library.Fusion(configFile()).runEngine(
            `7;${new library.Engine().compress(standardized())}`,
            'FULL',
          )
          const body = packet.subarray(13, -3)
          assert.deepEqual([packet[0], packet[1], packet.readUInt32BE(2)], [0x3f, 1, 7])
          assert.equal(packet.readUIntBE(7, 6), T * 1000)
          assert.equal(packet.at(-3), library.crc8(body))
          assert.equal(packet.readUInt16BE(packet.length - 2), library.crc16(packet.subarray(0, -2)))
          assert.equal(packet.length, 16 + body.length)
        },
      },
      {
        name: 'command byte constants',
        observe: () => assert.deepEqual({ ...library.COMMAND, ...commands }, { ...library.COMMAND }),
      },
    ],
  },
]
