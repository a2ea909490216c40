import t from 'tap'
import { API_VERSION, apiProblem } from './version.ts'

t.test('a plugin is loaded by a kernel with the same major version of the API and at least its minor one', async (t) => {
  for (const wanted of ['2.0', '2.9', '2.10']) t.equal(apiProblem(wanted, '2.10'), undefined, wanted)
  for (const wanted of ['2.11', '1.10', '3.0', '20.1'])
    t.match(apiProblem(wanted, '2.10'), /is written for version .* of the plugin API, and svcdb .* has 2\.10; install/, wanted)
  for (const wanted of ['2', '2.x', '^2.0', '', '2.0.0', '-2.0']) t.match(apiProblem(wanted, '2.10'), /is no version; give two numbers/, wanted)
  t.equal(apiProblem(API_VERSION), undefined)
})
