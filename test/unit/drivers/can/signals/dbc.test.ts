// DBC files as tools write them: what is read, what is left out, and that one bad line affects no other.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MAX_PROBLEMS } from '../../../../../drivers/can/signals/model'
import { dbcText } from '../../../../../drivers/can/signals/tokens'
import { parseDbc } from '../../../../lib/dbc'

const FILE = `VERSION "1.0 // no comment"

NS_ :
	NS_DESC_
	CM_
	BA_DEF_
	BA_
	VAL_
	SIG_VALTYPE_
	BO_TX_BU_
	SG_MUL_VAL_

BS_:

BU_: Engine Dash
VAL_TABLE_ OnOff 1 "On" 0 "Off" ;

BO_ 291 Basics: 8 Engine
 SG_ Coolant : 7|16@0- (0.1,-40) [-40|215] "degC"  Dash,Logger
 SG_ Speed : 16|12@1+ (0.0625,0) [0|250] "km/h" Vector__XXX
 SG_ Gear : 28|3@1+ (1,0) [0|7] "" Vector__XXX
 SG_ Pump : 31|1@1+ (1,0) [0|0] "" Vector__XXX
 SG_ Load : 32|32@1- (1E+000,0) [0|0] "%" Vector__XXX

BO_ 2364540158 EEC1: 8 Engine
 SG_ EngSpeed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" Vector__XXX

BO_ 2566844926 Other: 8 Engine
 SG_ Flag : 0|2@1+ (1,0) [0|3] "" Vector__XXX

BO_ 3221225472 VECTOR__INDEPENDENT_SIG_MSG: 0 Vector__XXX
 SG_ Lost : 0|8@1+ (1,0) [0|0] "" Vector__XXX

BO_TX_BU_ 291 : Engine,Dash;
EV_ Env1: 0 [0|1] "" 0 1 DUMMY_NODE_VECTOR0 Vector__XXX;
CM_ "a comment with a \\"quote\\"; and
BO_ 5 NotOne: 8 X
in it";
CM_ SG_ 291 Speed "of the vehicle";
BA_DEF_ BO_  "VFrameFormat" ENUM  "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_  "ProtocolType" STRING ;
BA_DEF_DEF_  "VFrameFormat" "";
BA_ "Folder" "C:\\files\\";
BA_ "VFrameFormat" BO_ 2364540158 3;
BA_ "VFrameFormat" BO_ 2566844926 1;
VAL_ 291 Gear 0 "Neutral" 1 "First" 7 "Not \\"available\\"" ;
VAL_ 291 Pump OnOff ;
VAL_ Env1 0 "no" 1 "yes" ;
SIG_VALTYPE_ 291 Load : 1;
`

test('messages and signals are read as the file has them, in its order', () => {
  const { messages, problems } = parseDbc(FILE.replaceAll('\n', '\r\n'))
  assert.deepEqual(problems, [])
  assert.deepEqual(
    messages.map(({ id, format, name, length, signals }) => [id, format, name, length, signals.length]),
    [
      [0x123, 'standard', 'Basics', 8, 5],
      [0x0cf004fe, 'j1939', 'EEC1', 8, 1],
      [0x18fef1fe, 'extended', 'Other', 8, 1],
    ],
  )
  const [coolant, speed, gear, pump, load] = messages[0]!.signals
  assert.deepEqual(coolant, {
    name: 'Coolant',
    start: 7,
    length: 16,
    bigEndian: true,
    format: 'signed',
    factor: 0.1,
    offset: -40,
    min: -40,
    max: 215,
    unit: 'degC',
    isSwitch: false,
    when: undefined,
    values: undefined,
  })
  assert.equal(speed?.bigEndian, false)
  assert.deepEqual([...gear!.values!], [[0, 'Neutral'], [1, 'First'], [7, 'Not "available"']]) // biome-ignore format: short
  assert.deepEqual([...pump!.values!], [[1, 'On'], [0, 'Off']]) // biome-ignore format: short
  assert.equal(load?.format, 'float')
})

test('in a J1939 network every long id is a parameter group, except those marked otherwise', () => {
  const formats = (end: string): string[] =>
    parseDbc(
      `BO_ 2364540158 A: 8 X\nBO_ 2566844926 B: 8 X\nBO_ 100 C: 8 X\n${end}\nBA_ "VFrameFormat" BO_ 2566844926 "ExtendedCAN";`,
    ).messages.map(({ format }) => format)
  assert.deepEqual(formats(''), ['extended', 'extended', 'standard'])
  assert.deepEqual(formats('BA_ "ProtocolType" "J1939";'), ['j1939', 'extended', 'standard'])
  assert.deepEqual(formats('BA_DEF_DEF_ "VFrameFormat" "J1939PG";'), ['j1939', 'extended', 'standard'])
})

test('plain and nested multiplexers are read', () => {
  const { messages, problems } = parseDbc(`BO_ 100 Mux: 8 X
 SG_ Select M : 0|4@1+ (1,0) [0|0] "" X
 SG_ A m0 : 8|8@1+ (1,0) [0|0] "" X
 SG_ Inner m1M : 8|8@1+ (1,0) [0|0] "" X
 SG_ B m5 : 16|8@1+ (1,0) [0|0] "" X
 SG_ Always : 24|8@1+ (1,0) [0|0] "" X
BO_ 101 NoSwitch: 8 X
 SG_ C m1 : 0|8@1+ (1,0) [0|0] "" X
 SG_ D : 8|8@1+ (1,0) [0|0] "" X
BO_ 102 Circle: 8 X
 SG_ E m1M : 0|8@1+ (1,0) [0|0] "" X
 SG_ F m1M : 8|8@1+ (1,0) [0|0] "" X
SG_MUL_VAL_ 100 B Inner 5-5, 7-9;
SG_MUL_VAL_ 100 Gone Inner 5-5;
SG_MUL_VAL_ 102 E F 1-1;
SG_MUL_VAL_ 102 F E 1-1;
`)
  const when = messages[0]!.signals.map(signal => [signal.name, signal.when?.of, signal.when?.ranges])
  assert.deepEqual(when, [
    ['Select', undefined, undefined],
    ['A', 'Select', [[0, 0]]],
    ['Inner', 'Select', [[1, 1]]],
    ['B', 'Inner', [[5, 5], [7, 9]]], // biome-ignore format: short
    ['Always', undefined, undefined],
  ])
  assert.deepEqual(
    messages.slice(1).map(({ signals }) => signals.map(({ name }) => name)),
    [['D'], []],
  )
  assert.deepEqual(problems, [
    'NoSwitch.C is left out: it has no multiplexer',
    'Circle.E is left out: it has no multiplexer',
    'Circle.F is left out: it has no multiplexer',
  ])
})

test('a wrong line is skipped and reported with its number; the other lines are read', () => {
  const { messages, problems } = parseDbc(`BO_ 1 Good: 8 X
 SG_ A : 0|8@1+ (1,0) [0|0] "" X
 SG_ Bad : 0|80@1+ (1,0) [0|0] "" X
 SG_ Worse : 0|8@2+ (1,0) [0|0] "" X
 SG_ A : 8|8@1+ (1,0) [0|0] "" X
 SG_ NoUnit : 0|8@1+ (1,0) [0|0]
 SG_ Nan : 0|8@1+ (1.#QNAN,0) [0|0] "" X
 SG_ B : 8|8@1+ (1,0) [1.#INF|0] "V"
BO_ 4000 TooLarge: 8 X
 SG_ Orphan : 8|8@1+ (1,0) [0|0] "" X
BO_ 1 Again: 8 X
BO_ twice Nothing
SIG_VALTYPE_ 1 A : 2;
SG_MUL_VAL_ 1 A B 3;
VAL_ 1 A 0 "text without an end
BO_ 2 Swallowed: 8 X
`)
  assert.deepEqual(
    messages.map(({ name, signals }) => [name, signals.map(signal => signal.name)]),
    [['Good', ['A', 'B']]],
  )
  assert.deepEqual(
    problems.map(problem => /^line (\d+)/.exec(problem)?.[1]),
    ['3', '4', '5', '6', '7', '9', '11', '12', '13', '14'],
  )
})

test('a statement without its end does not swallow the next one', () => {
  const { messages } = parseDbc('CM_ "no end"\nBA_ "Some" BO_ 7 1\nBO_ 2 Kept: 8 X\n SG_ A : 0|8@1+ (1,0) [0|0] "" X')
  assert.equal(messages[0]?.name, 'Kept')
})

test('files in any encoding keep their degree signs', () => {
  const line = 'BO_ 1 M: 8 X\n SG_ A : 0|8@1+ (1,0) [0|0] "°C" X\n'
  for (const bytes of [Buffer.from(line, 'utf8'), Buffer.from(line, 'latin1'), Buffer.from(`\ufeff${line}`, 'utf8')])
    assert.equal(parseDbc(dbcText(bytes)).messages[0]!.signals[0]!.unit, '°C')
})

test('input that would grow without limit stops the parser, and is reported', () => {
  const many = 'BO_ 1 M: 8 X\n SG_ A : 0|8@1+ (1,0) [0|0] "" X\nVAL_ 1 A'
  const { problems, messages } = parseDbc(`${many}${' 1 "x"'.repeat(200_001)};\nBO_ 2 Never: 8 X`)
  assert.match(problems[0]!, /more than 200000 values/)
  assert.equal(messages.length, 1)
  assert.equal(parseDbc('BO_ 99999 X: 8 X\n'.repeat(5000)).problems.length, MAX_PROBLEMS)
})

test('a signal of 32 bits may be a float, one of 64 a double, and no other size', () => {
  const { messages, problems } = parseDbc(`BO_ 1 All: 8 X
 SG_ A : 0|32@1+ (1,0) [0|0] "" X
 SG_ B : 0|64@1+ (1,0) [0|0] "" X
 SG_ C : 0|64@1+ (1,0) [0|0] "" X
 SG_ D : 0|32@1+ (1,0) [0|0] "" X
SIG_VALTYPE_ 1 A : 1;
SIG_VALTYPE_ 1 B : 2;
SIG_VALTYPE_ 1 C : 1;
SIG_VALTYPE_ 1 D : 0;
`)
  assert.deepEqual(
    messages[0]!.signals.map(({ format }) => format),
    ['float', 'double', 'unsigned', 'unsigned'],
  )
  assert.match(JSON.stringify(problems), /C has 64 bits/)
})
