// Keys change what is shown, and that determines what is read.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DisplayProvider, DisplayRegistry, RegistryReader } from '../../../src/display'
import { TuiState } from '../../../src/tui/state'
import { linesOf } from '../../../src/tui/views'

class Named extends DisplayProvider {
  constructor(plugin: string, id: string, title: string, priority: number) {
    super(plugin, id, title)
    this.priority = priority
  }
  extractData(): object {
    return {}
  }
}

async function stateOf(count: number): Promise<TuiState> {
  const registry = new DisplayRegistry()
  for (let n = 1; n <= count; n++) registry.register(new Named('p', `s${n}`, `Title ${n}`, 100 - n))
  const state = new TuiState()
  state.tookSections(await new RegistryReader(registry).available())
  return state
}

const text = (state: TuiState, columns = 80, rows = 24): string =>
  linesOf(state, { columns, rows, title: 't', note: '', problem: '' }, 'menu')
    .map(line => line.map(([piece]) => piece).join(''))
    .join('\n')

test('with up to nine sections a digit switches immediately', async () => {
  const state = await stateOf(6)
  assert.equal(state.key('4'), 'refresh')
  assert.equal(state.current, 'p:s4')
  assert.equal(state.key('0'), 'draw')
  assert.equal(state.key('7'), 'draw')
  assert.match(state.message, /no section 7/)
  assert.equal(state.current, 'p:s4')
})

test('with more sections a digit waits for the next one only while that could make a number', async () => {
  const state = await stateOf(23)
  assert.equal(state.key('1'), 'draw')
  assert.equal(state.digits, '1')
  assert.equal(state.key('7'), 'refresh')
  assert.equal(state.current, 'p:s17')
  assert.equal(state.key('3'), 'refresh')
  assert.equal(state.current, 'p:s3')
  state.key('2')
  assert.equal(state.endDigits(), 'refresh')
  assert.equal(state.current, 'p:s2')
  // any other key ends the number
  state.key('1')
  state.key('a')
  assert.equal(state.digits, '')
  assert.equal(state.view, 'all')
})

test('m, s, a, j, r and q do what the help says', async () => {
  const state = await stateOf(5)
  assert.equal(state.key('m'), 'refresh')
  assert.equal(state.view, 'providers')
  assert.match(text(state), /5 providers[\s\S]*p:s5 +Title 5 +plugin +95 +2 s +html/)
  state.key('m')
  assert.equal(state.view, 'section')
  state.key('a')
  assert.equal(state.view, 'all')
  state.key('m')
  state.key('m')
  assert.equal(state.view, 'all')
  state.key('escape')
  assert.equal(state.key('j'), 'refresh')
  assert.equal(state.format, 'json')
  assert.equal(state.key('r'), 'refresh')
  for (const key of ['q', 'ctrl-c', 'ctrl-d']) assert.equal((await stateOf(1)).key(key), 'quit')
})

test('search finds by name and title, letters and digits are text there, Escape returns', async () => {
  const state = await stateOf(12)
  state.key('a')
  state.key('s')
  for (const key of ['T', 'I', 't', 'l', 'e', ' ', '1', 'q', 'backspace']) assert.equal(state.key(key), 'draw')
  assert.deepEqual(
    state.matches.map(({ name }) => name),
    ['p:s1', 'p:s10', 'p:s11', 'p:s12'],
  )
  assert.match(text(state), /4 of 12 sections[\s\S]*search: TItle 1/)
  state.key('down')
  state.key('down')
  assert.equal(state.key('enter'), 'refresh')
  assert.equal(state.current, 'p:s11')
  assert.equal(state.view, 'section')
  state.key('s')
  state.key('z')
  state.key('enter')
  assert.equal(state.view, 'search')
  state.key('escape')
  assert.equal(state.view, 'section')
})

test('a long list of matches keeps the selected one on the page', async () => {
  const state = await stateOf(60)
  state.key('s')
  for (let k = 0; k < 45; k++) state.key('down')
  assert.match(text(state), /46 p:s46/)
  assert.doesNotMatch(text(state), /Title 1\n/)
  for (let k = 0; k < 100; k++) state.key('up')
  assert.match(text(state), /Title 1 /)
})

test('arrows cycle through the sections', async () => {
  const state = await stateOf(3)
  state.key('left')
  assert.equal(state.current, 'p:s3')
  state.key('right')
  assert.equal(state.current, 'p:s1')
})

test('scrolling stays inside the data', async () => {
  const state = await stateOf(1)
  state.took({ 'p:s1': Array.from({ length: 100 }, (_, k) => `line ${k}`).join('\n') }, 'text', 0)
  text(state)
  state.key('up')
  assert.equal(state.scroll, 0)
  state.key('end')
  assert.match(text(state), /line 99/)
  state.key('pagedown')
  assert.equal(state.scroll, 100 - state.page.rows)
  state.key('home')
  assert.match(text(state), /line 0\n/)
  // less data than before: the last page is still full
  state.key('end')
  state.took({ 'p:s1': 'short' }, 'text', 0)
  assert.match(text(state), /short/)
})

test('only sections that are on the screen and due are read', async () => {
  const state = await stateOf(3)
  assert.deepEqual(state.wanted(0, 1000), ['p:s1'])
  state.took({ 'p:s1': 'x' }, 'text', 0)
  assert.deepEqual(state.wanted(1000, 1000), [])
  assert.deepEqual(state.wanted(2000, 1000), ['p:s1'])
  assert.deepEqual(state.wanted(0, 1000, true), ['p:s1'])
  state.key('a')
  assert.deepEqual(state.wanted(0, 1000), ['p:s2', 'p:s3'])
  state.key('m')
  assert.deepEqual(state.wanted(9e9, 1000), [])
})

test('a failed section says why; a removed section selects the next one', async () => {
  const state = await stateOf(3)
  state.key('2')
  state.took({ 'p:s2': { error: 'no bus', code: 'LINK_DOWN' } }, 'text', 0)
  assert.match(text(state), /LINK_DOWN: no bus/)
  state.tookSections(state.sections.filter(({ name }) => name !== 'p:s2'))
  assert.equal(state.section?.name, 'p:s1')
  state.tookSections([])
  assert.match(text(state), /no section yet/)
  assert.equal(state.key('right'), 'nothing')
})

test('every view fills a terminal of any size exactly', async () => {
  const state = await stateOf(40)
  state.took(Object.fromEntries(state.sections.map(({ name }) => [name, `${'x'.repeat(200)}\n漢字 up  y`])), 'text', 0)
  for (const look of ['menu', 'bios'] as const)
    for (const view of ['section', 'all', 'providers', 'search'] as const)
      for (const [columns, rows] of [
        [80, 24],
        [200, 60],
        [20, 5],
        [37, 9],
        [1, 1],
        [105, 12],
      ] as const) {
        state.view = view
        const lines = linesOf(state, { columns, rows, title: 'os-node', note: 'via gateway', problem: 'why' }, look)
        assert.equal(lines.length, rows, `${look} ${view} ${columns}x${rows}`)
      }
})
