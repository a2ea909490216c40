import t from 'tap'
import { durationOf, durationText } from './duration.ts'
import { compareScaled, literalOf } from './literal.ts'
import { createText, parseStatement, type StatementLimits } from './parse.ts'

const LIMITS: StatementLimits = { maxBytes: 400, maxComparisons: 4, maxDepth: 2, maxChannels: 2 }

/** Statements and what they are when they are written again. */
const TAKEN: [string, string][] = [
  ['CREATE TRIGGER hot ON cpu WHEN usage > 90', 'CREATE TRIGGER hot ON cpu WHEN usage > 90'],
  ['create trigger 1st on cpu when\n\tusage>=-90.5e1', 'CREATE TRIGGER 1st ON cpu WHEN usage >= -90.5e1'],
  ["CREATE TRIGGER t ON node.cpu:x WHEN host='a''b' AND a<>.5", "CREATE TRIGGER t ON node.cpu:x WHEN host = 'a''b' AND a <> .5"],
  ['CREATE TRIGGER t ON "my ""table" WHEN "when" = 1', 'CREATE TRIGGER t ON "my ""table" WHEN "when" = 1'],
  ['CREATE TRIGGER t ON m WHEN a > 1 AND b > 2 OR c > 3', 'CREATE TRIGGER t ON m WHEN a > 1 AND b > 2 OR c > 3'],
  ['CREATE TRIGGER t ON m WHEN a > 1 AND (b > 2 OR c > 3)', 'CREATE TRIGGER t ON m WHEN a > 1 AND (b > 2 OR c > 3)'],
  ['CREATE TRIGGER t ON m WHEN ((a > 1) AND b > 2) AND c > 3', 'CREATE TRIGGER t ON m WHEN a > 1 AND b > 2 AND c > 3'],
  [
    "CREATE TRIGGER t ON m WHEN a > 1 DELIVER log, webhook('https://x.example/h')",
    "CREATE TRIGGER t ON m WHEN a > 1 DELIVER log, webhook('https://x.example/h')",
  ],
  ["CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '90 seconds'", "CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '90s'"],
  ["CREATE TRIGGER t ON m WHEN a > 1 DELIVER LOG COOLDOWN INTERVAL '1h 30m'", "CREATE TRIGGER t ON m WHEN a > 1 DELIVER log COOLDOWN INTERVAL '90m'"],
  ['CREATE TRIGGER t ON m WHEN a > 1 DELIVER log ; ', 'CREATE TRIGGER t ON m WHEN a > 1 DELIVER log'],
  ["CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '0s'", "CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '0s'"],
]

t.test('statements that are taken', (t) => {
  for (const [text, written] of TAKEN) {
    const statement = parseStatement(text, LIMITS)
    if (statement.kind !== 'create') return t.fail(text)
    t.equal(createText(statement), written)
    t.same(parseStatement(written, LIMITS), statement, 'and read again')
  }
  t.same(parseStatement(' show  TRIGGERS ', LIMITS), { kind: 'show' })
  t.same(parseStatement('SHOW TRIGGERS;', LIMITS), { kind: 'show' })
  t.same(parseStatement('DROP TRIGGER a_1', LIMITS), { kind: 'drop', name: 'a_1' })
  t.same(parseStatement('ALTER TRIGGER a DISABLE', LIMITS), { kind: 'alter', name: 'a', enabled: false })
  t.same(parseStatement('alter trigger a enable', LIMITS), { kind: 'alter', name: 'a', enabled: true })
  t.end()
})

/** Statements and their refusals, whole. */
const REFUSED: [string, string][] = [
  ['', '1: it ends there, expected is CREATE TRIGGER, SHOW TRIGGERS, DROP TRIGGER or ALTER TRIGGER'],
  ['SELECT 1', '1: "SELECT" is there, expected is CREATE TRIGGER, SHOW TRIGGERS, DROP TRIGGER or ALTER TRIGGER'],
  ['CREATE TABLE x', '8: "TABLE" is there, expected is TRIGGER'],
  ['CREATE TRIGGER a-b ON m', '17: "-" is there, expected is the name of a trigger; it has letters, digits and "_" only'],
  ['CREATE TRIGGER "a" ON m', '16: "\\"" is there, expected is the name of a trigger; it has letters, digits and "_" only'],
  ['DROP TRIGGER é', '14: "é" is there, expected is the name of a trigger; it has letters, digits and "_" only'],
  ['CREATE TRIGGER t ON node-cpu WHEN a > 1', '25: "-" is there, expected is WHEN; a name with other characters stands in double quotes'],
  ['CREATE TRIGGER t ON m WHEN a > 1 DELIVER log; DROP TRIGGER t', '45: ";" is there, expected is ",", COOLDOWN or the end of the statement'],
  ['CREATE TRIGGER t WHEN a > 1', '18: "WHEN" is there, expected is ON'],
  [
    'CREATE TRIGGER t ON WHEN a > 1',
    '21: "WHEN" is there, expected is the name of a measurement; one with other characters than letters, digits, "_", "." and ":", or that is a keyword, stands in double quotes',
  ],
  ['CREATE TRIGGER t ON m WHERE a > 1', '23: "WHERE" is there, expected is WHEN; there is no WHERE clause: conditions on tags stand in WHEN'],
  ['CREATE TRIGGER t ON m WHEN', '27: it ends there, expected is a comparison such as usage > 90 or host = \'a\', or "("'],
  [
    'CREATE TRIGGER t ON m WHEN NOT a > 1',
    '28: "NOT" is there, expected is a comparison such as usage > 90 or host = \'a\', or "("; there is no NOT: turn the comparison round',
  ],
  ['CREATE TRIGGER t ON m WHEN a-b > 1', '29: "-" is there, expected is =, <>, <, <=, > or >=; a name with other characters stands in double quotes'],
  ['CREATE TRIGGER t ON m WHEN a != 1', '30: "!" is there, expected is =, <>, <, <=, > or >=; unequal is <>'],
  ['CREATE TRIGGER t ON m WHEN a == 1', '30: "=" is there, expected is =, <>, <, <=, > or >=; equal is ='],
  [
    "CREATE TRIGGER t ON m WHEN a > 'x'",
    '30: ">" is there, expected is = or <>; a text is compared with a tag, by = and <> only; a number for a field stands without quotes',
  ],
  [
    'CREATE TRIGGER t ON m WHEN a > b',
    '32: "b" is there, expected is a number for a field, or a text in single quotes for a tag; such as usage > 90, host = \'a\'',
  ],
  ['CREATE TRIGGER t ON m WHEN a > 10s', '32: "10s" is there, expected is a number such as 90, -0.5 or 1e6; it has no unit and no suffix'],
  ['CREATE TRIGGER t ON m WHEN a > 1e999', '32: "1e999" is there, expected is a number of at most 64 characters below 1.8e308'],
  ["CREATE TRIGGER t ON m WHEN a = 'x", "34: it ends there, expected is a closing '; a ' within is written twice"],
  ['CREATE TRIGGER t ON m WHEN (a > 1', '34: it ends there, expected is AND, OR or ")"'],
  [
    'CREATE TRIGGER t ON m WHEN (((a > 1)))',
    '30: "(" is there, expected is at most 2 parentheses within one another; triggers.max_condition_depth is the limit',
  ],
  ['CREATE TRIGGER t ON m WHEN a>1 OR a>2 OR a>3 OR a>4 OR a>5', '56: "a" is there, expected is at most 4 comparisons; triggers.max_comparisons is the limit'],
  [
    'CREATE TRIGGER t ON m WHEN a > 1 SEVERITY high',
    '34: "SEVERITY" is there, expected is AND, OR, DELIVER, COOLDOWN or the end of the statement; there is no SEVERITY clause: it follows from the value',
  ],
  [
    'CREATE TRIGGER t ON m WHEN a > 1 ACTION log',
    '34: "ACTION" is there, expected is AND, OR, DELIVER, COOLDOWN or the end of the statement; there is no ACTION clause: DELIVER names the channels',
  ],
  ['CREATE TRIGGER t ON m WHEN a > 1 DELIVER', "41: it ends there, expected is a channel: log or webhook('https://...'); the channels are log and webhook"],
  [
    "CREATE TRIGGER t ON m WHEN a > 1 DELIVER email('x')",
    '42: "email" is there, expected is a channel: log or webhook(\'https://...\'); the channels are log and webhook',
  ],
  ['CREATE TRIGGER t ON m WHEN a > 1 DELIVER log, log', '47: "log" is there, expected is each channel once'],
  ['CREATE TRIGGER t ON m WHEN a > 1 DELIVER webhook(x)', '50: "x" is there, expected is a URL in single quotes; log or webhook(\'https://...\')'],
  ["CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN '5m'", "43: \"'\" is there, expected is INTERVAL; such as COOLDOWN INTERVAL '5m'"],
  [
    "CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '5 moons'",
    "52: \"'\" is there, expected is a duration such as '90s', '5 minutes' or '1h 30m'; the units are ns, us, ms, s, m, h, d, w",
  ],
  ["CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '366d'", '52: "\'" is there, expected is a duration of at most 365d'],
  ["CREATE TRIGGER t ON m WHEN a > 1 COOLDOWN INTERVAL '5m' DELIVER log", '57: "DELIVER" is there, expected is the end of the statement'],
  ['ALTER TRIGGER t RENAME', '17: "RENAME" is there, expected is DISABLE; a trigger is altered by ENABLE or DISABLE'],
  ['SHOW TRIGGERS x', '15: "x" is there, expected is the end of the statement'],
  [`DROP TRIGGER ${'x'.repeat(300)}`, '14: "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" is there, expected is a name of at most 256 characters'],
  [`SHOW ${' '.repeat(400)}`, '401: " " is there, expected is a statement of at most 400 bytes; triggers.max_statement_bytes is the limit'],
]

t.test('refusals say where, what is there and what may be', (t) => {
  for (const [text, refusal] of REFUSED) {
    t.throws(() => parseStatement(text, LIMITS), { code: 'BAD_REQUEST', message: `cannot read the statement at character ${refusal}` }, text.slice(0, 60))
  }
  t.end()
})

t.test('durations', (t) => {
  for (const text of ['', ' ', '5', 's', '5 5s', '-5s', '1.5h', '5s x', '5s;', '1'.repeat(20)]) t.equal(durationOf(text), undefined, text)
  t.equal(durationOf('1w 2d 3h 4m 5s 6ms 7us 8ns'), 788_645_006_007_008n)
  for (const nanos of [0n, 1n, 1_000n, 60_000_000_000n, 90_000_000_000n, 604_800_000_000_000n]) t.equal(durationOf(durationText(nanos)), nanos)
  t.end()
})

t.test('literals are exact', (t) => {
  t.equal(literalOf('1e999'), undefined)
  t.equal(compareScaled(10n ** 30n + 1n, 2, literalOf('1e28') as never), 1)
  t.equal(compareScaled(1n, 0, literalOf('1e-400') as never), 1)
  t.equal(compareScaled(0n, 0, literalOf('1e-400') as never), -1)
  t.equal(compareScaled(5n, 0, literalOf('4.99999999999999999999') as never), 1)
  t.equal(literalOf('4.99999999999999999999')?.comparesIntegers, false)
  t.equal(literalOf('4.5')?.comparesIntegers, true)
  t.end()
})
