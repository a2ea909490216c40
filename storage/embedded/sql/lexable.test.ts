/** Texts on their way to DuckDB's lexer mean what they meant, whatever stands next to a comment. */
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { lexable } from './lexable.ts'
import { openParser } from './testing/parser.ts'

const SEED = Number(process.env.SVC_SEED ?? 11)
const TEXTS = 1200

const { treeOf, close } = await openParser()
t.teardown(close)

/** Undefined where DuckDB's lexer could take another way than ours, or would take long. */
function madeOf(text: string): string | undefined {
  try {
    return lexable(text)
  } catch (error) {
    if (/"[^"]*[^\w]e" without a blank$|there is no operator/i.test((error as Error).message)) return undefined
    throw error
  }
}

const PARTS = [
  ...['/*', '*/', '/*', '*/', '/**/', '--', '\n', ' ', ' ', '\r', '/*/', '**/', '/***/', '//', '/', '*', '+', '-', '*-', '<', '=', '||', '->>', '@'],
  ...["'a'", "'", "''", "E'\\'", "e'", '"', '"b"', '$$', '$a$', '$', '$1', 'a', 'e', '1', '1.5', '1e', 'b', '(', ')', ',', '.', '\\', 'é', '?', ':', '::INT'],
]

t.test(`texts mean the same (seed ${SEED})`, async (t) => {
  const random = new Random(SEED)
  let changed = 0
  let read = 0
  for (let i = 0; i < TEXTS; i++) {
    let text = 'SELECT 1'
    for (let n = 1 + random.below(12); n > 0; n--) text += PARTS[random.below(PARTS.length)]
    if (i % 2 === 0) text += ' /* */ + 2'
    const made = madeOf(text)
    if (made === undefined) continue
    if (made !== text) changed++
    const tree = await treeOf(text)
    if (tree !== 'refused') read++
    if ((await treeOf(made)) !== tree) t.fail(`${JSON.stringify(text)} became ${JSON.stringify(made)}`)
  }
  t.ok(changed > TEXTS / 4 && read > TEXTS / 20, `${changed} were changed, ${read} are statements`)
})

t.test('what is quoted stays as it is', (t) => {
  for (const text of ["SELECT '/* a */'", 'SELECT "/* a */"', 'SELECT $$/* a */$$', 'SELECT $x$/* a */$$$x$', "SELECT E'\\'/* a */'", 'SELECT 1 -- /* a', '/*'])
    t.equal(lexable(text), text)
  t.equal(lexable('SELECT 1/* a /* b */ c */+ 2 /* d */'), 'SELECT 1/**/ + 2 /**/ ')
  t.equal(lexable(`SELECT '${'+-'.repeat(20)}' --${'-'.repeat(40)}`), `SELECT '${'+-'.repeat(20)}' --${'-'.repeat(40)}`)
  t.throws(() => lexable(`SELECT ${'+-'.repeat(5)}1`), /there is no operator "\+-\+-\+-\+-\.\.\."; write blanks between operators/)
  t.equal(lexable(`SELECT ${'+-'.repeat(4)}1`), `SELECT ${'+-'.repeat(4)}1`)
  t.end()
})
