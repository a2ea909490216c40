import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'

t.test('the library keeps no buffer for each number that a packet may have', async (t) => {
  // A process of its own: brokers of tests take their packets from the same module.
  const text = `
    import { createRequire } from 'node:module'
    import { PassThrough } from 'node:stream'
    import { load } from ${JSON.stringify(join(import.meta.dirname, 'library.ts'))}
    const require = createRequire(createRequire(${JSON.stringify(import.meta.filename)}).resolve('mqtt'))
    const { connect } = load()
    require('mqtt-packet').writeToStream({ cmd: 'puback', messageId: 258 }, new PassThrough().on('data', (bytes) => bytes.length === 2 && console.log(bytes.toString('hex'))))
    console.log(typeof connect, Object.keys(require('mqtt-packet/numbers').cache).length)`
  const out = execFileSync(process.execPath, ['--input-type=module', '--eval', text], { encoding: 'utf8' })
  t.match(out, /0102/, 'packets are as they were')
  t.match(out, /function 0\n/)
})
