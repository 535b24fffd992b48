// A type or class that a file exports has a name that no other file of src and drivers exports: who reads an import knows which one it is.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = process.env.OS_NODE_TEST_ROOT ?? process.cwd()

/** classes that the specification names: the library's form checks the arguments of its user, and extends the class of a room */
const CHECKED = [
  ...['Engine', 'Fusion', 'Receiver', 'SecureClient', 'SecureServer', 'SecureSessions', 'TransporterManager'],
  'UplinkEncoder',
]
const LIBRARY = /^src\/(?:index|checked-exports)\.ts$/
/** names that do not say of what they are; also refused where nothing is exported */
const VAGUE = ['Entry', 'Row', 'Waiting']

const declaredIn = (text: string): { name: string; exported: boolean }[] =>
  [
    ...text.matchAll(
      /^(export )?(?:default )?(?:declare )?(?:abstract )?(?:class|interface|type|(?:const )?enum) ([A-Z]\w*)/gm,
    ),
  ].map(([, exported, name]) => ({ name: name!, exported: exported !== undefined }))

/** Types and classes that are exported where they are declared, in a list, or by another name. */
function exportedBy(text: string): string[] {
  const declared = declaredIn(text)
  const names = declared.flatMap(({ name, exported }) => (exported ? [name] : []))
  for (const [, list, from] of text.matchAll(/^export (?:type )?\{([^}]*)\}( from)?/gm))
    for (const one of list!.split(',')) {
      const [name, as] = one
        .trim()
        .replace(/^type /, '')
        .split(' as ')
      if (as !== undefined ? /^[A-Z]\w*[a-z]/.test(as) : !from && declared.some(own => own.name === name))
        names.push(as ?? name!)
    }
  return [...new Set(names)]
}

test('no two files export a type or class of one name', () => {
  const where = new Map<string, string[]>()
  const vague: string[] = []
  for (const folder of ['src', 'drivers'])
    for (const entry of readdirSync(join(root, folder), { recursive: true }).map(String)) {
      if (!/\.tsx?$/.test(entry)) continue
      const file = `${folder}/${entry}`
      const text = readFileSync(join(root, file), 'utf8')
      for (const name of exportedBy(text)) where.set(name, [...(where.get(name) ?? []), file])
      for (const { name } of declaredIn(text)) if (VAGUE.includes(name)) vague.push(`${file}: ${name}`)
    }
  assert.ok(where.size > 900, `${where.size}`)
  const twice = [...where].filter(([, files]) => files.length > 1)
  const isChecked = ([name, files]: (typeof twice)[number]): boolean =>
    CHECKED.includes(name) && files.length === 2 && files.filter(file => LIBRARY.test(file)).length === 1
  assert.deepEqual(
    twice.filter(one => !isChecked(one)),
    [],
    'say in the name of which part it is: LoraRadio, ModbusTransport',
  )
  assert.deepEqual(twice.map(([name]) => name).sort(), CHECKED, 'an exception that is not needed')
  assert.deepEqual(vague, [], 'say what waits, or what the row is of: QueuedDatagram, IdRow')
})

test('exports are found in every form', () => {
  const text = `
export class Radio {
}
export abstract class Medium {
export type Port = number
export interface Waiting {
export enum Level {
interface Local {
class Listed {
export { Listed, type Local, helper }
export type { Sent as Packet } from './sent'
export { RESERVE, size as recordSize } from './format'
export { type Other, Another } from './other'
  interface Inner {
`
  assert.deepEqual(exportedBy(text).sort(), [
    'Level',
    'Listed',
    'Local',
    'Medium',
    'Packet',
    'Port',
    'Radio',
    'Waiting',
  ])
  assert.equal(declaredIn(text).length, 7)
})
