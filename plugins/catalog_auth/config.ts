import { FILE_PATH } from 'svcdb'
import { type Static, Type } from 'svcdb/lib/schema'

/** The catalog's own keys. */
const catalogSchema = Type.Object(
  {
    query_token: Type.Boolean({
      default: true,
      description: "Whether ?token=TOKEN counts as Authorization: Bearer on the catalog's paths; false = only headers do",
    }),
    audit_sink: Type.Enum(['stdout', 'file', 'none'], {
      default: 'stdout',
      description: 'Where authentication decisions are written, a JSON object a line: stdout, file (audit_path) or none',
    }),
    audit_path: Type.Optional(
      Type.String({
        ...FILE_PATH,
        minLength: 1,
        maxLength: 4096,
        description: 'File of audit_sink "file"; default auth/catalog-audit.jsonl in database.data_dir',
      }),
    ),
    audit_scope: Type.Enum(['catalog', 'all'], {
      default: 'catalog',
      description: "Whose decisions are written: catalog (of the catalog's routes) or all (of every listener)",
    }),
    audit_authorization: Type.Boolean({
      default: false,
      description: 'Also writes authz_permit and authz_deny for each call that got as far as authorization',
    }),
    fail_closed: Type.Boolean({ default: true, description: 'Refuses a call whose decision cannot be written; false = it goes on, and the loss is counted' }),
    audit_queue_entries: Type.Integer({
      default: 10_000,
      minimum: 1,
      maximum: 1_000_000,
      description:
        'Entries that wait to be written at once; one more is lost or, with fail_closed, refused. Under server.multi_tenancy those of one namespace are at most three quarters',
    }),
    audit_file_max_bytes: Type.Integer({
      default: 104_857_600,
      minimum: 0,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Size at which the file is renamed to NAME.1 and a new one begun; 0 = never',
    }),
    audit_files_kept: Type.Integer({ default: 9, minimum: 1, maximum: 1000, description: 'Files NAME.1, NAME.2 ... that are kept; the oldest is removed' }),
  },
  { description: 'The data catalog' },
)

export const configSchema = Type.Object({
  auth: Type.Object(
    {
      require_authentication: Type.Boolean({
        default: true,
        description: 'Whether the data catalog refuses callers that nobody authenticated; false lets them in where the server or exempt_paths does',
      }),
    },
    { description: 'Shared with the plugins that authenticate' },
  ),
  catalog_auth: catalogSchema,
})

export type CatalogConfig = Static<typeof catalogSchema>
