/** What a start, and a reload, say of a file of authorities that let no client in; OpenSSL takes it without a word. */
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { boot, ManualClock, temporaryFolder } from 'svcdb/testkit'
import t, { type Test } from 'tap'
import { until } from '../../test/support/until.ts'
import { Authority, get, type Issued, issue, noOpenssl } from './testing.ts'

const DAY_MS = 86_400_000

interface Started {
  told(): string[]
  /** Whether the handshake lets it in. */
  letsIn(shown: Issued): Promise<boolean>
}

async function start(t: Test, root: Authority, client_ca: string, others: { clock?: ManualClock; reload?: number } = {}): Promise<Started> {
  const own = root.issue({ subject: ['CN=localhost'], san: ['DNS.1=localhost', 'IP.1=127.0.0.1'], usage: 'serverAuth' })
  const lines: string[] = []
  const tls = { cert: own.certFile, key: own.keyFile, client_ca, reload_interval_secs: others.reload ?? 0 }
  const node = await boot({ config: { tls }, log: (line) => lines.push(line), ...(others.clock && { clock: others.clock }) })
  t.teardown(() => node.stop())
  return {
    told: () => lines.filter((line) => line.includes('of tls.client_ca')).map((line) => JSON.parse(line).msg),
    letsIn: ({ cert, key }) =>
      get(`${node.url}/health`, { agent: false, ca: root.own.cert, cert, key }).then(
        () => true,
        () => false,
      ),
  }
}

t.test('authorities that let no client in', { skip: noOpenssl }, async (t) => {
  const folder = temporaryFolder(t)
  const root = new Authority(folder, 'root')
  const between = new Authority(folder, 'between', root)
  const client = between.issue({ subject: ['CN=ann'] })
  const both = join(folder, 'both.pem')
  writeFileSync(both, Buffer.concat([between.own.cert, root.own.cert]))

  await t.test('a root, and others with their root, are no news', async (t) => {
    for (const [file, shown] of [
      [root.own.certFile, root.issue({ subject: ['CN=ann'] })],
      [both, client],
    ] as const) {
      const { told, letsIn } = await start(t, root, file)
      t.same(told(), [])
      t.equal(await letsIn(shown), true)
    }
  })

  await t.test('an authority without the one that signed it', async (t) => {
    const { told, letsIn } = await start(t, root, between.own.certFile)
    t.match(told(), [/certificate "C=DE, CN=between" of tls\.client_ca "\S+" is signed by "C=DE, CN=root", whose certificate is not in the file: no client/])
    t.equal(await letsIn(client), false)
  })

  await t.test('a certificate of a client, or a server, in the place of their authority', async (t) => {
    const { told, letsIn } = await start(t, root, client.certFile)
    t.match(told(), [/certificate "C=DE, CN=ann" .* is signed by "C=DE, CN=between", whose certificate is not in the file/])
    t.equal(await letsIn(client), false)
  })

  await t.test('one that is no authority and has signed itself: it lets itself in alone', async (t) => {
    const alone = issue(folder, { subject: ['CN=alone'] })
    const { told, letsIn } = await start(t, root, alone.certFile)
    t.match(told(), [/certificate "C=DE, CN=alone" .* is not marked as that of an authority/])
    t.equal(await letsIn(alone), true)
    t.equal(await letsIn(issue(folder, { subject: ['CN=ann'] }, alone)), false)
  })

  await t.test('many are named in part', async (t) => {
    const file = join(folder, 'many.pem')
    writeFileSync(file, Buffer.concat(Array.from({ length: 5 }, (_, i) => between.issue({ subject: [`CN=c${i}`] }).cert)))
    const { told } = await start(t, root, file)
    t.equal(told().length, 4)
    t.match(told().at(-1), /^clients of 2 other certificates of tls\.client_ca "\S+" are refused, too$/)
  })

  await t.test('one whose time is over, or has not come', async (t) => {
    const now = Date.now()
    for (const [at, why] of [
      [now + 9 * DAY_MS, /certificate "C=DE, CN=root" .* expired at \d{4}-\S+: clients/],
      [now - 9 * DAY_MS, /certificate "C=DE, CN=root" .* holds from \S+ only: clients/],
    ] as const)
      t.match((await start(t, root, root.own.certFile, { clock: new ManualClock(at) })).told(), [why])
  })

  await t.test('a reload tells of what has come, once', async (t) => {
    const file = join(folder, 'changing.pem')
    copyFileSync(root.own.certFile, file)
    const { told } = await start(t, root, file, { reload: 0.02 })
    t.same(told(), [])
    copyFileSync(between.own.certFile, file)
    await until('the authority without its root is told', () => told().length > 0)
    copyFileSync(client.certFile, file)
    await until('the client in its place is told', () => told().length > 1)
    t.match(told(), [/CN=between" of/, /CN=ann" of/])
  })
})
