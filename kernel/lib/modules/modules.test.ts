import t from 'tap'
import { moduleUrl } from './index.ts'

t.test('a module is named with the extension of the one that asks', async (t) => {
  t.equal(moduleUrl('./job.ts', 'file:///p/src/index.ts').href, 'file:///p/src/job.ts')
  t.equal(moduleUrl('./job.ts', 'file:///p/dist/index.js').href, 'file:///p/dist/job.js')
  t.equal(moduleUrl('../jobs/a.ts', 'file:///p.ts/dist/http/index.js?x=1.ts').href, 'file:///p.ts/dist/jobs/a.js')
  t.equal(moduleUrl('./job.ts', 'file:///p/src/index.ts?fresh').href, 'file:///p/src/job.ts')
})
