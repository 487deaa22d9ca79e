"""TLS contexts from PEM bytes in memory."""

from __future__ import annotations

import ssl

from tenantry.core import keypair
from tenantry.kube import config as configs
from tenantry.kube import credentials, errors


def context(config: configs.Config, credential: credentials.Credential) -> ssl.SSLContext:
    """Build the context for one credential; costs about a millisecond, so keep it.

    :raises ConfigError: when CA, certificate or key are not usable PEM, or do not fit together
    """
    result = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    result.minimum_version = ssl.TLSVersion.TLSv1_2
    result.set_alpn_protocols(["http/1.1"])
    if config.insecure:
        result.check_hostname = False
        result.verify_mode = ssl.CERT_NONE
    elif credential.ca:
        try:
            result.load_verify_locations(cadata=credential.ca.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
            raise errors.ConfigError(f"certificate-authority is not usable: {error}") from error
    else:
        result.load_default_certs()
    if credential.cert:
        try:
            keypair.load(result, credential.cert, credential.key)
        except (ssl.SSLError, ValueError) as error:
            raise errors.ConfigError(f"client-certificate is not usable: {error}") from error
    return result
