import { FILE_PATH } from 'svcdb'
import { LISTENS } from 'svcdb/lib/network'
import { type Static, Type } from 'svcdb/lib/schema'

export const configSchema = Type.Object({
  base_path: Type.String({
    default: '/api/v1/plane',
    pattern: '^(/[A-Za-z0-9_.~-]+)+$',
    description: 'Below which the routes lie on the listener of the server',
  }),
  addr: Type.Optional(
    Type.String({ ...LISTENS, description: 'host:port of a listener of its own, on which the routes lie at the root, and nothing else; absent = none' }),
  ),
  tokens_file: Type.String({
    ...FILE_PATH,
    description: 'File of the tokens and whom they stand for, YAML or JSON; read once at the start',
  }),
  policy: Type.String({
    ...FILE_PATH,
    description: 'Folder whose *.cedar files say who may do what, or one such file; read once at the start',
  }),
  audit_reads: Type.Boolean({ default: false, description: 'Whether what only reads is in the audit log too, and not only what acts and what is refused' }),
})

export type OperatorApiConfig = Static<typeof configSchema>
