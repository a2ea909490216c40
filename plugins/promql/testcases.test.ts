/** The language: scripts in testcases/, whose expected results are those of Prometheus' engine. */
import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { ask, difference } from './testing/run-script.ts'
import { readScript } from './testing/script.ts'

const folder = new URL('./testcases/', import.meta.url)
for (const file of readdirSync(folder)) {
  t.test(file, async (t) => {
    for (const question of readScript(readFileSync(new URL(file, folder), 'utf8'))) {
      t.equal(difference(question.expected, await ask(question)), undefined, `${file}:${question.line} ${question.query}`)
    }
  })
}

t.test('a difference is seen', async (t) => {
  const [question] = readScript('load 1m\n  a{x="1"} 1 2\n  a{x="2"} 3\nat 1m a\n  a{x="1"} 2\n  a{x="2"} 3\n')
  const result = await ask(question)
  const { expected } = question
  t.equal(difference(expected, result), undefined)
  t.match(difference({ ...expected, series: expected.series.slice(1) }, result), /^2 series/)
  for (const value of ['Inf', '-Inf', 'NaN', '2.1'])
    t.match(difference({ ...expected, series: [expected.series[1], ['a{x="1"}', [value]]] }, result), /^series other than/, value)
  t.match(difference({ ...expected, inOrder: true, series: expected.series.toReversed() }, result), /^series other than/)
  t.match(difference({ ...expected, warnings: ['w'] }, result), /^warnings/)
  t.match(difference({ ...expected, infos: ['w'] }, result), /^infos/)
  t.match(difference({ ...expected, error: 'w' }, result), /^error/)
  t.match(difference({ ...expected, scalar: ['1'] }, result), /^scalar/)
  t.match(difference({ ...expected, string: 'w' }, result), /^string/)
})

t.test('deep queries take no longer than they are long', async (t) => {
  const deep = 400
  const wrap = (open: string, close = ')') => `${open.repeat(deep)}a${close.repeat(deep)}`
  const chain = (operator: string) => new Array(deep).fill('a').join(operator)
  for (const query of [wrap('('), wrap('abs('), wrap('sum('), wrap('sum without (x) ('), wrap('-', ''), chain(' + '), chain(' or '), chain(' and on(x) ')]) {
    const [question] = readScript(`load 1m\n  a{x="1"} 1 2\nat 1m ${query}\n`)
    t.equal((await ask(question)).error, undefined, query.slice(0, 20))
  }
})
