/** Names are asked for without threads, of both kinds; against a name server of the test. */
import { createSocket } from 'node:dgram'
import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { publicResolver, systemResolver } from './resolver.ts'

const A = 1
const AAAA = 28

/** Answers questions (RFC 1035) with addresses as bytes; undefined = never. */
async function nameServer(t: Test, answer: (name: string, type: number) => Buffer[] | undefined): Promise<string> {
  const socket = createSocket('udp4')
  socket.on('message', (question, from) => {
    const labels: string[] = []
    let at = 12
    for (let length = question[at]; length > 0; length = question[at]) {
      labels.push(question.toString('latin1', at + 1, at + 1 + length))
      at += 1 + length
    }
    const type = question.readUInt16BE(at + 1)
    const found = answer(labels.join('.').toLowerCase(), type)
    if (found === undefined) return
    const head = Buffer.from(question.subarray(0, 12))
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(1, 4)
    head.writeUInt16BE(found.length, 6)
    head.writeUInt32BE(0, 8)
    const records = found.map((address) => Buffer.concat([Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, address.length]), address]))
    socket.send(Buffer.concat([head, question.subarray(12, at + 5), ...records]), from.port, from.address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise<void>((resolve) => socket.close(() => resolve())))
  return `127.0.0.1:${socket.address().port}`
}

t.test('all addresses of both kinds, and a server that never answers holds up nothing', async (t) => {
  const six = Buffer.from('26064700000000000000000000001111', 'hex')
  const server = await nameServer(t, (name, type) => {
    if (name === 'silent.example') return undefined
    if (name === 'both.example') return type === A ? [Buffer.from([1, 1, 1, 1]), Buffer.from([1, 0, 0, 1])] : [six]
    return name === 'six.example' && type === AAAA ? [six] : []
  })
  const resolve = publicResolver([server])
  t.same((await resolve('both.example')).sort(), ['1.0.0.1', '1.1.1.1', '2606:4700::1111'])
  t.same(await resolve('six.example'), ['2606:4700::1111'])
  await t.rejects(resolve('none.example'), { code: 'ENODATA' })
  let settled = 0
  const silent = Array.from({ length: 50 }, () =>
    resolve('silent.example')
      .catch((error: NodeJS.ErrnoException) => error.code)
      .finally(() => settled++),
  )
  t.equal((await resolve('both.example')).length, 3)
  await readFile(import.meta.filename)
  t.equal(settled, 0, 'none of the 50 beside it is over')
  t.same(new Set(await Promise.all(silent)), new Set(['ETIMEOUT']))
})

t.test('the hosts file counts where internal targets are allowed', async (t) => {
  const resolve = systemResolver()
  const found = await Promise.all(Array.from({ length: 10 }, () => resolve('localhost')))
  for (const addresses of found) t.ok(addresses.includes('127.0.0.1') || addresses.includes('::1'))
  await t.rejects(Promise.all([resolve('no such name'), resolve('localhost')]))
  t.ok((await resolve('localhost')).length > 0)
})
