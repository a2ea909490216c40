/** Against answers of statsmodels and scikit-learn that were kept. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { type Answer, keptCases } from './testing-reference.ts'

const answers = JSON.parse(readFileSync(new URL('./testcases/reference.json', import.meta.url), 'utf8')) as Record<string, Answer>

t.test('statsmodels and scikit-learn say the same', async (t) => {
  const cases = keptCases()
  t.same(
    cases.map(({ name }) => name),
    Object.keys(answers),
    'node test/interop/analytics-python.ts PYTHON writes the answers',
  )
  for (const { name, problem } of cases) t.equal(problem(answers[name]), undefined, name)
})
