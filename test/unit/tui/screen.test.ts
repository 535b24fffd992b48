// Lines are converted to terminal output, and only changes are written.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pad, textWidth } from '../../../src/display'
import { encode, type Ink, inkOf, type TextLine, wrap } from '../../../src/tui/line'
import { Screen } from '../../../src/tui/screen'
import { prng } from '../../lib/random'
import { Vt } from '../../lib/vt'

const INK: Ink = { colours: true, unicode: true }

class Paper {
  written: string[] = []
  takes = true
  #drained: (() => void) | undefined
  write(text: string): boolean {
    this.written.push(text)
    return this.takes
  }
  once(_event: 'drain', listener: () => void): void {
    this.#drained = listener
  }
  drain(): void {
    this.takes = true
    const go = this.#drained
    this.#drained = undefined
    go?.()
  }
}

const lines = (texts: readonly string[], columns = 20) => texts.map(text => encode([[text]], columns, INK))

test('whatever was on the screen, after a frame the screen shows that frame', () => {
  const next = prng(5)
  const paper = new Paper()
  const screen = new Screen(paper)
  const vt = new Vt(20, 6)
  vt.wraps = false
  const piece = (): string =>
    ['', 'a', '漢字', 'ab cd', '─'.repeat(20), 'x'.repeat(25), 'é', '😀'][Math.floor(next() * 8)]!
  for (let round = 0; round < 400; round++) {
    const frame: TextLine[] = Array.from({ length: 6 }, () => [[piece()], [piece(), next() < 0.5 ? 'pick' : 'good']])
    if (next() < 0.05) screen.forget()
    screen.draw(frame.map(line => encode(line, 20, INK)))
    for (const text of paper.written.splice(0)) vt.write(text)
    const shown = new Vt(20, 6)
    shown.wraps = false
    for (const [row, line] of frame.entries()) shown.write(`\x1b[${row + 1};1H${encode(line, 20, INK).text}`)
    assert.deepEqual(vt.lines(), shown.lines())
  }
})

test('the same frame again writes nothing; one changed line writes that line', () => {
  const paper = new Paper()
  const screen = new Screen(paper)
  screen.draw(lines(['one', 'two', 'three']))
  paper.written.length = 0
  screen.draw(lines(['one', 'two', 'three']))
  assert.deepEqual(paper.written, [])
  screen.draw(lines(['one', 'TWO', 'three']))
  assert.equal(paper.written.length, 1)
  assert.match(paper.written[0]!, /\x1b\[2;1HTWO\x1b\[K/)
  assert.doesNotMatch(paper.written[0]!, /one|three|\x1b\[2J/)
})

test('a slow terminal gets the newest frame when it is ready, not each of them', () => {
  const paper = new Paper()
  const screen = new Screen(paper)
  paper.takes = false
  screen.draw(lines(['first']))
  for (let k = 0; k < 50; k++) screen.draw(lines([`frame ${k}`]))
  assert.equal(paper.written.length, 1)
  paper.drain()
  assert.equal(paper.written.length, 2)
  assert.match(paper.written[1]!, /frame 49/)
  screen.draw(lines(['last']))
  assert.equal(paper.written.length, 3)
})

test('a line is truncated at the edge by columns, not by letters, and nothing in it moves the cursor', () => {
  assert.deepEqual(encode([['漢字漢字']], 5, INK), { text: '漢字', full: false })
  assert.deepEqual(encode([['abcdef']], 3, INK), { text: 'abc', full: true })
  assert.deepEqual(encode([['a\x1b[2Jb\r\n']], 20, INK).text, 'a·[2Jb··')
  assert.equal(encode([['up', 'good'], [' x']], 20, INK).text, '\x1b[32mup\x1b[0m x')
  const plain = inkOf({ NO_COLOR: '1', LANG: 'C' })
  assert.equal(
    encode(
      [
        ['up─é', 'good'],
        ['x', 'pick'],
      ],
      20,
      plain,
    ).text,
    'up-?\x1b[1;7mx\x1b[0m',
  )
  assert.deepEqual(inkOf({}), { colours: true, unicode: true })
  assert.deepEqual(inkOf({ LANG: 'de_DE.UTF-8' }).unicode, true)
  assert.deepEqual(inkOf({ LC_ALL: 'POSIX', LANG: 'de_DE.UTF-8' }).unicode, false)
})

test('padding and wrapping respect the width and lose nothing', () => {
  const next = prng(8)
  const words = ['a', 'bb', '漢字', 'long_word_without_blanks', '  ', '😀', '']
  for (let round = 0; round < 1000; round++) {
    const text = Array.from({ length: Math.floor(next() * 12) }, () => words[Math.floor(next() * words.length)]).join(
      ' ',
    )
    const width = 4 + Math.floor(next() * 30)
    assert.equal(textWidth(pad(text, width)), width)
    const wrapped = wrap(text, width)
    for (const line of wrapped) assert.ok(textWidth(line) <= width, JSON.stringify({ line, width }))
    assert.equal(wrapped.join('').replaceAll(' ', ''), text.replaceAll(' ', ''))
  }
})
