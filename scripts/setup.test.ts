import { spawnSync } from 'node:child_process'
import t from 'tap'

const script = new URL('./setup.mjs', import.meta.url).pathname

t.test('says nothing when everything is installed', async (t) => {
  spawnSync(process.execPath, [script]) // may have to check the packages once
  const again = spawnSync(process.execPath, [script], { encoding: 'utf8' })
  t.same([again.status, again.stdout, again.stderr], [0, '', ''])
})
