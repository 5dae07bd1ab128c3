"""DescribeAcls, CreateAcls, DeleteAcls of a node without an authorizer."""

import pytest
from api_asking import Asker, versions

from penstock import errors
from penstock.wire.messages import k29_describe_acls as k29
from penstock.wire.messages import k30_create_acls as k30
from penstock.wire.messages import k31_delete_acls as k31

pytest_plugins = ["api_fixtures"]

DISABLED = errors.SecurityDisabled.code


@pytest.mark.parametrize("version", versions(29))
def test_nobody_can_tell_who_may_do_what(asker: Asker, version: int) -> None:
    answer = asker.ask(k29.DescribeAclsRequest(resource_type_filter=1), version)
    assert (answer.error_code, answer.resources) == (DISABLED, [])
    assert answer.error_message == "No Authorizer is configured on the broker"


@pytest.mark.parametrize("version", versions(30))
@pytest.mark.parametrize("count", [0, 3])
def test_each_new_acl_is_refused(asker: Asker, version: int, count: int) -> None:
    request = k30.CreateAclsRequest(creations=[k30.AclCreation() for _ in range(count)])
    told = [(each.error_code, each.error_message) for each in asker.ask(request, version).results]
    assert told == [(DISABLED, "No Authorizer is configured.")] * count


@pytest.mark.parametrize("version", versions(31))
def test_each_filter_is_refused(asker: Asker, version: int) -> None:
    request = k31.DeleteAclsRequest(filters=[k31.DeleteAclsFilter(), k31.DeleteAclsFilter()])
    results = asker.ask(request, version).filter_results
    told = [(each.error_code, each.error_message, each.matching_acls) for each in results]
    assert told == [(DISABLED, "No Authorizer is configured.", [])] * 2
