/** A file of credentials that cannot be read. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { boot, temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { listed } from '../../test/support/connectors.ts'
import { eventually } from '../../test/support/until.ts'

const sasl = { security_protocol: 'SASL_PLAINTEXT', sasl_mechanism: 'PLAIN' }

for (const text of ['hunter2-secret', '{"username": "robot7", "password": hunter2}', '{"username": "robot7", "password": 12121}'])
  t.test(`neither the log nor the list of connectors shows what is in it: ${text}`, async (t) => {
    const file = join(temporaryFolder(t), 'broker.json')
    await writeFile(file, text)
    const lines: string[] = []
    const kafka = { brokers: '127.0.0.1:1', topics: ['t'], format: 'line_protocol', ...sasl, credential_file: file }
    const node = await boot({ plugins: ['kafka', 'line_protocol'], config: { kafka }, log: (line) => lines.push(line) })
    t.teardown(() => node.stop())
    const failed = await eventually(async () => ((await listed(node))[0].status as { failed?: string }).failed)
    t.equal(failed, `cannot use ${file}: it is to be JSON with username and password, which are texts`)
    const shown = lines.join() + (await node.inject('/api/v1/connectors')).body
    t.ok(shown.includes(failed))
    t.notMatch(shown, /hunter|robot7|12121/)
  })
