"""PyIceberg's REST catalog over TLS with API keys. Arguments: the server's URL, the file of the certificate to trust, and four keys: of an admin, of the
namespace north, of north and south, and one that nobody made. The namespaces are default, north and south."""
import sys

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ForbiddenError, NoSuchNamespaceError, RESTError, UnauthorizedError

import checks
from checks import equal, fails

URL, CERTIFICATE, ADMIN, NORTH, BOTH, WRONG = sys.argv[1:7]


def catalog(token=None, **properties):
    given = {'type': 'rest', 'uri': URL, 'ssl': {'cabundle': CERTIFICATE}, **properties}
    if token is not None:
        given['token'] = token
    return load_catalog('svc', **given)


def check_list():
    """lists the namespaces of the credential, whatever the size of a page"""
    for size in ({}, {'page-size': '1'}, {'page-size': '2'}, {'page-size': '1000'}):
        equal(catalog(ADMIN, **size).list_namespaces(), [('default',), ('north',), ('south',)])
        equal(catalog(NORTH, **size).list_namespaces(), [('north',)])


def check_properties():
    """loads the properties of a namespace"""
    properties = catalog(NORTH).load_namespace_properties('north')
    equal(properties['description'], 'the north')
    equal(properties['owner'], 'nora')
    equal(properties['max_series_count'], '5000')
    equal({type(value) for value in properties.values()}, {str})


def check_isolation():
    """does not learn of a namespace of another tenant, nor of one that is not there"""
    own = catalog(NORTH)
    texts = [str(fails(NoSuchNamespaceError, lambda name=name: own.load_namespace_properties(name), 'NoSuchNamespaceException')) for name in ('south', 'mouth')]
    equal(texts[0].replace('south', 'mouth'), texts[1])
    equal([own.namespace_exists(name) for name in ('north', 'south', 'mouth')], [True, False, False])
    fails(NoSuchNamespaceError, lambda: own.list_namespaces('south'))


def check_levels():
    """finds one level of namespaces"""
    equal(catalog(NORTH).list_namespaces('north'), [])
    fails(NoSuchNamespaceError, lambda: catalog(NORTH).load_namespace_properties(('north', 'pole')))
    fails(NoSuchNamespaceError, lambda: catalog(NORTH).list_namespaces(('north', 'pole')))


def check_credentials():
    """is refused without a token and with one that nobody made"""
    fails(UnauthorizedError, lambda: catalog(WRONG), 'NotAuthenticatedException')
    fails(UnauthorizedError, lambda: catalog('a.b.c'), 'NotAuthenticatedException')
    fails(UnauthorizedError, catalog, 'NotAuthenticatedException')


def check_several():
    """need not say which namespace it means where the credential has several, and may"""
    equal(catalog(BOTH).list_namespaces(), [('north',), ('south',)])
    fails(ForbiddenError, lambda: catalog(BOTH, **{'header.X-Namespace': 'east'}), 'X-Namespace')
    named = catalog(BOTH, **{'header.X-Namespace': 'south'})
    equal(named.list_namespaces(), [('north',), ('south',)])
    equal(named.namespace_exists('north'), True)


def check_tables():
    """knows that there are no tables and views, and that nothing can be changed"""
    own = catalog(NORTH)
    for call in (
        lambda: own.list_tables('north'),
        lambda: own.load_table('north.cpu'),
        lambda: own.create_namespace('more'),
        lambda: own.drop_namespace('north'),
        lambda: own.update_namespace_properties('north', updates={'owner': 'me'}),
    ):
        fails(NotImplementedError, call, 'does not support')
    equal(own.list_views('north'), [])


def check_method():
    """reads the error of a method that a path does not answer to"""
    own = catalog(NORTH)
    own._supported_endpoints = {*own._supported_endpoints, *__import__('pyiceberg.catalog.rest', fromlist=['x']).DEFAULT_ENDPOINTS}
    fails(RESTError, lambda: own.create_namespace('more'), 'UnsupportedOperationException')


checks.run(sys.modules[__name__])
