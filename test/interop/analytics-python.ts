/**
 * Asks statsmodels and scikit-learn. As a program it writes the answers that `npm test` compares with:
 * node test/interop/analytics-python.ts PYTHON, where PYTHON is an interpreter that has both.
 */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { type Answer, keptCases } from '../../plugins/analytics/testing-reference.ts'

const SCRIPT = new URL('./clients/analytics_reference.py', import.meta.url).pathname

/** Matrices are small here: the threads that BLAS starts for each core only wait for one another, and on a busy machine that takes several times as long. */
const ONE_THREAD = { OMP_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1', MKL_NUM_THREADS: '1' }

export function answersOf(python: string, tasks: readonly object[]): Answer[] {
  const stdio: ['pipe', 'pipe', 'ignore'] = ['pipe', 'pipe', 'ignore']
  const env = { ...process.env, ...ONE_THREAD }
  return JSON.parse(execFileSync(python, [SCRIPT], { input: JSON.stringify(tasks), encoding: 'utf8', maxBuffer: 2 ** 28, stdio, env }))
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const cases = keptCases()
  const answers = answersOf(
    process.argv[2],
    cases.map(({ task }) => task),
  )
  const brief = (_key: string, value: unknown): unknown => (typeof value === 'number' ? Number(value.toPrecision(11)) : value)
  const lines = cases.map(({ name }, i) => `  ${JSON.stringify(name)}: ${JSON.stringify(answers[i], brief)}`)
  writeFileSync(new URL('../../plugins/analytics/testcases/reference.json', import.meta.url), `{\n${lines.join(',\n')}\n}\n`)
}
