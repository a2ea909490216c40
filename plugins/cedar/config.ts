import { FILE_PATH } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

/** The most that max_policy_bytes may be. */
export const MAX_POLICY_BYTES = 16_777_216

const authorization = Type.Object({
  engine: Type.Enum(['cedar', 'none'], {
    default: 'cedar',
    description:
      '"none": no policies are asked about the routes of the server; the engine is there for plugins with policies of their own, such as operator_api',
  }),
  policy_dir: Type.String({
    ...FILE_PATH,
    default: '',
    description: 'Folder whose *.cedar files are the policies; folders in it are not looked into. This, server.authz_policy_dir or policy_file is needed',
  }),
  policy_file: Type.String({ ...FILE_PATH, default: '', description: 'The one file of policies, in place of policy_dir' }),
  hot_reload: Type.Boolean({ default: true, description: 'Whether changed policies are taken up while the server runs; SIGHUP does so at once' }),
  hot_reload_interval_secs: Type.Integer({ default: 30, minimum: 1, maximum: 86_400, description: 'How often the files are read to see whether they changed' }),
  max_policy_bytes: Type.Integer({
    default: 1_048_576,
    minimum: 1024,
    maximum: MAX_POLICY_BYTES,
    description: 'Size of all policy files together; larger sets are refused',
  }),
  decision_cache_entries: Type.Integer({
    default: 10_000,
    minimum: 0,
    maximum: 1_000_000,
    description: 'Decisions that are remembered until the policies change; 0 = none',
  }),
})

const server = Type.Object({ authz_policy_dir: Type.String({ ...FILE_PATH, default: '', description: 'Another name of authorization.policy_dir' }) })

export const configSchema = Type.Object({
  authorization: Type.Object(authorization.properties, { default: {}, description: 'Policies, and how they are looked at' }),
  server: Type.Object(server.properties, { default: {}, description: 'Where policies may be named too' }),
})

export type CedarSections = Static<typeof configSchema>
