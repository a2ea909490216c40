import { conformance } from '../conformance/index.ts'
import { embedded } from './testing/conformance-engine.ts'

conformance('embedded', embedded({}, 'closed'), { part: 'rules' })
