// Where "Find a setting" on the page leads: every source type and every medium is found where it is configured.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MEDIUM_NAMES, SOURCE_TYPES } from '../../../src/config/fragments/gateway'
import { mediaTable, sourceTable } from '../../../src/index'
import { MEDIA } from '../../../src/links/registry'
import { fits, partsWith } from '../../../src/web/page/lib/edits'
import type { OptionCategory, OptionField } from '../../../src/web/page/lib/types'
import { optionSchema } from '../../../src/web/web-options'
import { world } from './world'

test('the configuration names every source type and every medium of this build', () => {
  assert.deepEqual(SOURCE_TYPES.split(', ').sort(), Object.keys(sourceTable).sort())
  assert.deepEqual(MEDIUM_NAMES.split(', '), Object.keys(mediaTable))
})

test('every source type and every medium leads to the settings that contain it', async t => {
  const { context } = await world(t)
  const { categories } = optionSchema(context.config, false, 0) as { categories: OptionCategory[] }
  const fields = categories.flatMap(category => category.fields)
  const find = (text: string): OptionField[] => fields.filter(field => fits(field, [text.toLowerCase()]))
  const keys = (text: string): string[] => find(text).map(({ key }) => key)
  const shown = (text: string, list: string): string[] =>
    partsWith(fields.find(({ key }) => key === list)!, text.toLowerCase().split(' ')).map(({ key }) => key)

  assert.ok(Object.keys(sourceTable).length > 20)
  for (const type of Object.keys(sourceTable)) {
    assert.ok(keys(type).includes('gateway.sources'), type)
    // the key to write it in is shown below the field
    assert.ok(shown(type, 'gateway.sources').includes('type'), type)
  }
  assert.equal(MEDIA.length, Object.keys(mediaTable).length)
  for (const { name, section, status, options_name } of MEDIA) {
    const found = keys(name)
    for (const list of ['gateway.uplinks', 'gateway.receivers']) {
      assert.ok(found.includes(list), `${name}: ${list}`)
      assert.ok(shown(name, list).includes('medium'), `${name}: ${list}`)
    }
    assert.ok(found.includes(`RESOURCES.${status}.${options_name}`), `${name}: ${found}`)
    assert.ok(
      found.some(key => `${key}.`.startsWith(`RESOURCES.${section}.${options_name}.`)),
      `${name}: ${found}`,
    )
  }
  // types that no other setting mentions lead nowhere else
  for (const type of ['bme280', 'ina219', 'modbus_tcp', 'ruuvi']) assert.deepEqual(keys(type), ['gateway.sources'])
  assert.equal(keys('sources')[0], 'gateway.sources')
  assert.deepEqual(keys('bme281'), [])
})
