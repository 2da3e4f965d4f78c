"""The supervisor on the box: stdlib and kit only, shipped as one content-addressed parcel."""
